"""Objects in photos: boxes and tiles in an index, queries for a part, and from a detector's table to an answer."""

import csv
import io
import json

import numpy as np
import pytest
from PIL import Image

import tfdml
from tests.commands import assert_one_error, ok, run
from tests.serving_fixtures import exported, loaded, picture
from tfdml.serving import Searcher
from tfdml.serving.exported_model import model_hash
from tfdml.serving.image_list import ImageList, read_image_table
from tfdml.serving.index.attributes import read_attributes
from tfdml.serving.index.build import delete_images, index_images
from tfdml.serving.index.contact_sheet import _tile
from tfdml.serving.index.folder import IndexFolder
from tfdml.serving.index.labeling import duplicates

SIDE = 32


def pixels(seed):
    return np.asarray(Image.open(io.BytesIO(picture(seed))).convert("RGB").resize((SIDE, SIDE)))


def box_at(place):
    """The box of the n-th object on a shelf of two rows of three."""
    left, top = SIDE * (place % 3), SIDE * (place // 3)
    return left, top, left + SIDE, top + SIDE


@pytest.fixture(scope="module")
def shelves(tmp_path_factory):
    """Two photos of six objects each, and a table of their boxes."""
    folder = tmp_path_factory.mktemp("shelves")
    with open(folder / "objects.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["path", "label", "x1", "y1", "x2", "y2", "score"])
        for shelf in range(2):
            sheet = np.zeros((2 * SIDE, 3 * SIDE, 3), np.uint8)
            for place in range(6):
                left, top, right, bottom = box_at(place)
                sheet[top:bottom, left:right] = pixels(6 * shelf + place)
                rows.writerow(
                    [folder / f"{shelf}.png", f"product {6 * shelf + place}", left, top, right, bottom, place / 10]
                )
            Image.fromarray(sheet).save(folder / f"{shelf}.png")
    return folder


@pytest.fixture(scope="module")
def objects(shelves):
    return ImageList.of(shelves / "objects.csv")


@pytest.fixture(scope="module")
def index(shelves, objects, tmp_path_factory):
    out = tmp_path_factory.mktemp("indexed") / "index"
    attributes = read_attributes(shelves / "objects.csv", objects.paths)
    index_images(out, objects, model=exported(), attributes=attributes)
    return out


def embedded(*images):
    return loaded(model_hash(exported())).embed_readable(list(images))[0]


def as_png(array):
    file = io.BytesIO()
    Image.fromarray(array).save(file, "PNG")
    return file.getvalue()


def test_each_box_is_a_row_of_what_it_shows(index, shelves):
    searcher = Searcher(index)
    assert len(searcher) == 12 and len(set(searcher.store.rows.ids.tolist())) == 12
    for number in range(12):
        (found,) = searcher.search_vectors(embedded(as_png(pixels(number))), 1)
        assert found[0].label == f"product {number}" and found[0].similarity == pytest.approx(1, abs=1e-5)
        assert found[0].file == str(shelves / f"{number // 6}.png") and found[0].box == box_at(number % 6)
        # What is served is the photo, and what is drawn is the part.
        assert searcher.file_of(found[0].id) == found[0].file
        assert np.asarray(_tile(found[0].path)).std() > 10
    # The columns of the table are attributes of the boxes.
    (found,) = searcher.search_vectors(embedded(as_png(pixels(3))), 12, "score >= 0.4 and x1 > 50")
    assert {each.label for each in found} == {"product 5", "product 11"}


@pytest.mark.parametrize("kind", ["path", "bytes", "pixels"])
def test_a_query_is_a_part_of_a_photo(kind, index, shelves):
    image = shelves / "1.png"
    image = {"path": image, "bytes": image.read_bytes(), "pixels": np.asarray(Image.open(image))}[kind]
    opened = tfdml.Index.open(index)
    for box in (box_at(4), tuple(each / (3 * SIDE, 2 * SIDE)[place % 2] for place, each in enumerate(box_at(4)))):
        (found,) = opened.search(image, k=2, boxes=box)
        assert found[0].label == "product 10" and found[0].similarity == pytest.approx(1, abs=1e-5)
    found = opened.search([image, image], k=1, boxes=[box_at(0), box_at(5)])
    assert [each[0].label for each in found] == ["product 6", "product 11"]
    (labeled,) = opened.label([image], k=1, threshold=0.99, boxes=[box_at(2)])
    assert labeled.label == "product 8"
    for boxes, told in (
        ([box_at(0)] * 2, "boxes must have one box for each of 1 images. Received: 2"),
        ((0, 0, 9 * SIDE, 9), r"the box 0, 0, 288, 9 is outside the image, which has 96 x 64 pixels"),
        ((9, 9, 9, 20), "Image 0: the box 9, 9, 9, 20 has no area"),
    ):
        with pytest.raises(ValueError, match=told) as caught:
            opened.search(image, boxes=boxes)
        assert "\n" not in str(caught.value)


def test_boxes_that_are_added_in_python_and_deleted(shelves, tmp_path):
    shelf = str(shelves / "0.png")
    with tfdml.Index(exported(), store=tmp_path / "index") as index:
        ids = index.add([shelf] * 3, labels=["a", "b", "c"], boxes=[box_at(place) for place in range(3)])
        assert ids.tolist() == [0, 1, 2]
        # The same box again replaces it, and the whole photo is another image.
        index.add([shelf, shelf], labels=["d", "e"], boxes=[box_at(2), (0, 0, 3 * SIDE, 2 * SIDE)])
        (found,) = index.search(shelf, k=9, boxes=box_at(2))
        assert found[0].label == "d" and sorted(each.label for each in found) == ["a", "b", "d", "e"]
        index.delete(ids[0])
    with pytest.raises(ValueError, match="boxes need a model that reads image files"):
        tfdml.Index(lambda batch: batch).add(np.ones((1, 2)), boxes=[(0, 0, 9, 9)])
    index_images(tmp_path / "more", ImageList.of(shelves / "objects.csv"), model=exported())
    assert delete_images(tmp_path / "more", [shelf]) == (6, 6)


def test_bad_boxes_of_a_table_are_skipped_and_told(shelves, tmp_path):
    lines = ["path,x1,y1,x2,y2", f"{shelves}/0.png,0,0,32,32", f"{shelves}/0.png,0,0,500,32"]
    (tmp_path / "objects.csv").write_text("\n".join(lines))
    done = ok("tfdml.index", f"--model={exported()}", f"--images={tmp_path}/objects.csv", f"--out={tmp_path}/index")
    assert "Skipped 1 of 2 images" in done.stdout
    assert "the box 0, 0, 500, 32 is outside the image, which has 96 x 64 pixels" in done.stdout
    for header, row, told in (
        ("path,x1,y1,x2", "0.png,0,0,32", "has no column y2. Expected all of x1,y1,x2,y2"),
        ("path,x1,y1,x2,y2", "0.png,0,0,32,0", "line 2: the box 0, 0, 32, 0 has no area"),
        ("path,x1,y1,x2,y2", "0.png,0,0,1.5,0.5", "line 2: the box 0, 0, 1.5, 0.5 has fractions above 1"),
        ("path,x1,y1,x2,y2", "0.png,0,0,9,9\n0.png,0,0,9,9", "lists a box twice: .*0.png#xywh=0,0,9,9. Use it"),
        ("path,label", "0.png,a\n0.png,b", "lists an image twice: .*0.png. .* add the columns x1,y1,x2,y2"),
        ("path,X1,Y1,X2,Y2", "0.png,0,0,9,9", "has a column X1. For boxes, name it x1"),
        ("path,x1,y1,x2,y2", "0.png,0,0,9,9\n0.png,0,0,0.5,0.5", "has boxes in fractions, such as"),
    ):
        (tmp_path / "wrong.csv").write_text(f"{header}\n{row}\n")
        with pytest.raises(ValueError, match=told):
            ImageList.of(tmp_path / "wrong.csv")
    assert read_image_table(shelves / "objects.csv")[2][1] == box_at(1)


def test_one_object_is_deleted_by_the_command(shelves, objects, tmp_path):
    index_images(tmp_path / "index", objects, model=exported())
    gone = f"--delete={shelves}/0.png#xywh=32,0,32,32,{shelves}/1.png"
    assert "Deleted 7 images" in ok("tfdml.index", gone, f"--out={tmp_path}/index").stdout
    folder = IndexFolder(tmp_path / "index")
    assert {*folder.read_rows(folder.manifest()).paths} == {*objects.paths[:6]} - {objects.paths[1]}


def test_the_labels_of_the_images_own_table_are_not_called_ignored(shelves, tmp_path):
    table = shelves / "objects.csv"
    flags = [f"--model={exported()}", f"--images={table}", f"--attributes={table}", f"--out={tmp_path}/index"]
    done = ok("tfdml.index", *flags)
    assert "Indexed 12 images" in done.stdout and "is ignored" not in done.stdout + done.stderr


def test_an_object_that_cannot_be_labeled_is_explained(shelves, index, tmp_path):
    lines = ["path,x1,y1,x2,y2", f"{shelves}/0.png,0,0,32,32", f"{shelves}/0.png,0,0,500,32"]
    (tmp_path / "detections.csv").write_text("\n".join(lines))
    done = ok("tfdml.search", f"--index={index}", f"--label={tmp_path}/detections.csv", "--threshold=0.9")
    assert "1 of 2 images cannot be read. The first is" in done.stdout + done.stderr
    assert "outside the image, which has 96 x 64 pixels" in done.stdout + done.stderr and "product 0" in done.stdout


def test_tiles_of_one_photo_are_no_duplicates(shelves, tmp_path):
    Image.new("RGB", (40, 40), "red").save(tmp_path / "sky.png")
    photos = ImageList([str(tmp_path / "sky.png"), str(shelves / "0.png")], [None, None])
    index_images(tmp_path / "index", photos, model=exported(), tiles="2x2")
    pairs = duplicates(Searcher(tmp_path / "index"), -1.0)
    assert len(pairs) == 16 and all(one.file != other.file for one, other in pairs)


@pytest.mark.nightly
def test_from_a_detectors_table_to_a_product_or_unknown(shelves, tmp_path):
    """Products are photos of one object each; the detector finds some of them and a stranger on a shelf."""
    products = tmp_path / "products"
    for number in range(6):
        (products / f"product {number}").mkdir(parents=True)
        Image.fromarray(pixels(number)).save(products / f"product {number}" / "1.png")
    detections = ["path,x1,y1,x2,y2"]
    detections += [
        ",".join(map(str, [shelves / "0.png", *box_at(4)])),
        ",".join(map(str, [shelves / "1.png", *box_at(1)])),
    ]
    (tmp_path / "detections.csv").write_text("\n".join(detections))
    ok("tfdml.index", f"--model={exported()}", f"--images={products}", f"--out={tmp_path}/index")
    flags = [
        f"--index={tmp_path}/index",
        f"--label={tmp_path}/detections.csv",
        "--k=1",
        "--threshold=0.999",
        "--format=json",
    ]
    images = json.loads(ok("tfdml.search", *flags).stdout)["images"]
    assert [each["label"] for each in images] == ["product 4", None]
    assert [each["path"] for each in images] == [
        f"{shelves}/0.png#xywh=32,32,32,32",
        f"{shelves}/1.png#xywh=32,0,32,32",
    ]
    found = ok("tfdml.search", f"--index={tmp_path}/index", "--box=32,32,64,64", "--k=1", f"{shelves}/0.png").stdout
    assert "1.0000  product 4" in found and "0.png#xywh=32,32,32,32" in found
    for box, told in (
        ("1,2,3", "--box must have four numbers"),
        ("9,9,9,20", "--box: the box 9, 9, 9, 20 has no area"),
    ):
        assert_one_error(run("tfdml.search", f"--index={tmp_path}/index", f"--box={box}", f"{shelves}/0.png"), told)


@pytest.mark.slow
def test_tiles_find_a_part_and_each_photo_once(shelves, tmp_path):
    quarters = tmp_path / "photos"
    quarters.mkdir()
    for photo in range(5):
        tiles = [pixels(20 + 4 * photo + tile) for tile in range(4)]
        Image.fromarray(np.vstack([np.hstack(tiles[:2]), np.hstack(tiles[2:])])).save(quarters / f"{photo}.png")
    out = tmp_path / "index"
    count, bad = index_images(out, ImageList.of(quarters), model=exported(), tiles="2x2+1")
    assert (count, bad) == (25, {}) and IndexFolder(out).manifest()["tiles"] == "2x2+1"
    searcher = Searcher(out)
    query = as_png(pixels(20 + 4 * 3 + 2))
    (found,) = searcher.search([query], 3)
    assert found[0].file == str(quarters / "3.png") and found[0].box == (0, 0.5, 0.5, 1)
    assert len({each.file for each in found}) == len(found) == 3
    # As the best tile of each photo, by a comparison with all of them.
    rows, scores = searcher.store.rows.paths, searcher.store.nearest(embedded(query), 25)
    best = {}
    for similarity, row in zip(scores[0][0], scores[1][0], strict=True):
        best.setdefault(rows[row].partition("#")[0], similarity)
    assert [each.file for each in found] == list(best)[:3]
    assert [each.similarity for each in found] == pytest.approx(list(best.values())[:3])
    assert [len(each) for each in searcher.search([query, query], 50)] == [5, 5]
    # New photos get the same tiles.
    more = tmp_path / "more"
    more.mkdir()
    Image.fromarray(np.hstack([pixels(50), pixels(51)])).save(more / "x.png")
    assert index_images(out, ImageList.of(more), add=True)[0] == 30
    with pytest.raises(ValueError, match="has tiles. Add images by python -m tfdml.index --add"):
        tfdml.Index.open(out).add([str(more / "x.png")])
    with pytest.raises(ValueError, match="Tiles need whole image files"):
        index_images(tmp_path / "other", ImageList.of(shelves / "objects.csv"), model=exported(), tiles="2x2")
    done = ok("tfdml.index", f"--model={exported()}", f"--images={quarters}", "--tiles=2x1", f"--out={tmp_path}/third")
    assert "Indexed 10 tiles (2x1) in" in done.stdout
    refused = run(
        "tfdml.index", f"--model={exported()}", f"--images={quarters}", "--tiles=2", f"--out={tmp_path}/fourth"
    )
    assert_one_error(refused, "tiles must be columns and rows from 1 to 9")

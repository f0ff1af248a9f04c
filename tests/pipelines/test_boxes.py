"""Boxes of objects: what they may be, where they are in a file, and tables of them for training."""

import io

import numpy as np
import pytest
from PIL import Image

from pipelines.boxes import (
    BoxError,
    as_stored,
    checked_box,
    cropped,
    in_pixels,
    joined_names,
    parted,
    size_of,
    tile_boxes,
    with_box,
)
from pipelines.checks import as_decodable
from pipelines.datasets import Split, load
from pipelines.images.decoding import decode, image_of
from pipelines.labels import with_second_views
from tests.pipelines.image_files import encoded, gradient, moving, noise
from tests.pipelines.test_bad_images import heic

WIDTH, HEIGHT = 40, 24


def photo(seed=0, orientation=1, kind="JPEG"):
    pixels = np.random.default_rng(seed).integers(0, 255, (6, 10, 3)).astype(np.uint8).repeat(4, 0).repeat(4, 1)
    exif, file = Image.Exif(), io.BytesIO()
    exif[0x0112] = orientation
    Image.fromarray(pixels).save(file, kind, exif=exif)
    return file.getvalue()


@pytest.mark.parametrize(
    ("box", "told"),
    [
        ((10, 10, 5, 20), "has no area. Expected x1 < x2 and y1 < y2"),
        ((0.5, 0.2, 0.5, 0.9), "has no area"),
        ((-0.1, 0, 0.5, 0.5), "is outside the image"),
        ((-5, 0, 50, 50), "is outside the image"),
        ((0.2, 0.1, 1.3, 0.9), "has fractions above 1, or is smaller than a pixel"),
        ((0.0, 0.0, 1.2, 1.1), "has fractions above 1"),
        ((float("nan"), 0, 1, 1), "must have finite numbers"),
    ],
)
def test_boxes_of_no_photo(box, told):
    with pytest.raises(BoxError, match=f"^t.csv, line 3: the box .* {told}") as caught:
        checked_box(box, "t.csv, line 3")
    assert "\n" not in str(caught.value)


def test_another_number_of_numbers():
    with pytest.raises(BoxError, match="^t.csv, line 3 must have four numbers, x1,y1,x2,y2. Received: 3 numbers.$"):
        checked_box((1, 2, 3), "t.csv, line 3")


def test_what_is_no_number():
    with pytest.raises(BoxError, match=r"^Image 0 must have four numbers, x1,y1,x2,y2. Received: \[0, 1, 2, 'a'\].$"):
        checked_box([0, 1, 2, "a"], "Image 0")


def test_names_that_were_split_at_commas():
    names = ["/a.jpg#xywh=0,0,160,160", "/b,c.jpg", "/a.jpg#xywh=percent:25,0,50,100", "7", "d.jpg"]
    assert joined_names(",".join(names).split(",")) == [names[0], "/b", "c.jpg", *names[2:]]
    assert joined_names([]) == [] and joined_names(["/a.jpg#xywh=1", "2.jpg"]) == ["/a.jpg#xywh=1", "2.jpg"]


def test_pixels_and_fractions():
    assert in_pixels((0.25, 0, 0.75, 1), 40, 24) == (10, 0, 30, 24) == in_pixels((10, 0, 30, 24), 40, 24)
    # Outward, but not by rounding errors.
    assert in_pixels((1 / 3, 0, 2 / 3, 1), 30, 24) == (10, 0, 20, 24)
    assert in_pixels((10.2, 3.7, 29.1, 20), 40, 24) == (10, 3, 30, 20)
    # At least one pixel, also of tiny boxes at the edges.
    assert in_pixels((0, 0, 1e-9, 1e-9), 40, 24) == (0, 0, 1, 1)
    assert in_pixels((1 - 1e-9, 0.5, 1, 0.5 + 1e-9), 40, 24) == (39, 12, 40, 13)
    # Detectors are off by a pixel.
    assert in_pixels((-0.4, 0, 40.6, 24.3), 40, 24) == (0, 0, 40, 24)
    for box in ((0, 0, 42, 24), (0, 0, 40, 26), (50, 2, 60, 9)):
        with pytest.raises(BoxError, match="is outside the image, which has 40 x 24 pixels"):
            in_pixels(box, 40, 24)


def test_names_of_parts():
    assert with_box("/a b.jpg", (0.25, 0, 0.75, 1)) == "/a b.jpg#xywh=percent:25,0,50,100"
    assert with_box("/a.jpg", (10.3, 20, 110, 220)) == "/a.jpg#xywh=10,20,100,200"
    random = np.random.default_rng(0)
    for scale in (1, 1000):
        for _ in range(200):
            left, top, right, bottom = random.random(4) * scale
            box = checked_box(
                (
                    min(left, right),
                    min(top, bottom),
                    max(left, right) + 2 * (scale > 1),
                    max(top, bottom) + 2 * (scale > 1),
                )
            )
            name = with_box("/a.jpg", box)
            path, again = parted(name)
            assert path == "/a.jpg" and with_box(path, again) == name
            assert in_pixels(again, 2000, 1500) == in_pixels(box, 2000, 1500)
    for name in ("/a.jpg", "/a#xywh=1,2.jpg", "/a.jpg#xywh=5,5,0,3", "/a.jpg#xywh=1e999,0,9,9", "#xywh=0,0,9,9"):
        assert parted(name) == (name, None)


def test_tiles():
    assert tile_boxes("2x1") == [(0, 0, 0.5, 1), (0.5, 0, 1, 1)]
    found = tile_boxes("3x2+1")
    # They cover the image without overlap, and then all of it.
    assert len(found) == 7 and found[-1] == (0, 0, 1, 1)
    assert sum((right - left) * (bottom - top) for left, top, right, bottom in found[:-1]) == pytest.approx(1)
    for wrong in ("2", "0x2", "2x2+2", "10x1", "2x2 +1"):
        with pytest.raises(ValueError, match="tiles must be columns and rows from 1 to 9, such as 2x2"):
            tile_boxes(wrong)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_box_is_of_the_upright_photo(orientation, tmp_path):
    file = photo(orientation=orientation)
    upright = decode(file).numpy()
    width, height, found = size_of(file)
    assert (height, width) == upright.shape[:2] and found == orientation
    box = (3, 2, 17, 9)
    expected = upright[2:9, 3:17]
    # As training crops, and as a search does.
    stored = as_stored(box, width, height, orientation)
    np.testing.assert_array_equal(decode(file, np.array(stored, np.int32)), expected)
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(cropped(file, box)))), expected)


@pytest.mark.parametrize("kind", ["AVIF", "HEIF", "animated WebP"])
@pytest.mark.parametrize("orientation", [1, 3, 6])
def test_a_box_of_a_converted_photo_is_of_the_upright_photo(kind, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    if kind == "HEIF":
        file = heic(gradient(20, 32), exif=exif)
    elif kind == "AVIF":
        file = encoded(gradient(20, 32), "AVIF", exif=exif)
    else:
        file = moving("WebP", [gradient(20, 32), noise(20, 32)], exif=exif)
    height, width = decode(as_decodable(file)).shape[:2]
    assert size_of(file) == (width, height, 1)


def test_a_second_view_of_a_converted_photo_is_inside(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    (tmp_path / "a.avif").write_bytes(encoded(gradient(20, 200), "AVIF", exif=exif))
    rows = with_second_views(Split(np.array([f"{tmp_path}/a.avif"], object), np.zeros(1, np.int64)))
    left, top, right, bottom = rows.boxes[1].tolist()
    assert (right - left, bottom - top) == (14, 141) and right <= 20 and bottom <= 200


def test_what_cannot_be_cropped():
    with pytest.raises(OSError, match="the image is not a readable image"):
        cropped(b"text", (0, 0, 5, 5))
    with pytest.raises(OSError, match="the image cannot be decoded"):
        cropped(photo(kind="PNG")[:-60], (0, 0, 5, 5))
    with pytest.raises(BoxError, match="outside the image, which has 40 x 24 pixels"):
        cropped(photo(), (0, 0, 50, 5))


@pytest.fixture
def folder(tmp_path):
    for name, orientation in (("a", 1), ("b", 6)):
        (tmp_path / f"{name}.jpg").write_bytes(photo(ord(name), orientation))
    return tmp_path


def table(folder, rows, header="path,label,split,x1,y1,x2,y2"):
    (folder / "objects.csv").write_text("\n".join([header, *rows]) + "\n")
    return load(f"csv(path='{folder}/objects.csv')", test_only=header == "")


def test_a_table_of_boxes_for_training(folder):
    rows = ["a.jpg,cup,train,0,0,20,12", "a.jpg,cup,train,20,12,40,24", "a.jpg,hat,test,0,12,20,24"]
    rows += ["b.jpg,hat,test,4,20,24,40", "b.jpg,pen,train,4,0,24,20"]
    dataset = table(folder, rows)
    for split, chosen in ((dataset.train, (0, 1, 4)), (dataset.test, (2, 3))):
        for row, number in enumerate(chosen):
            name, *_, left, top, right, bottom = rows[number].split(",")
            whole = decode((folder / name).read_bytes()).numpy()
            np.testing.assert_array_equal(image_of(split, row), whole[int(top) : int(bottom), int(left) : int(right)])
    # Fractions are of the upright photo as well.
    sizes = {"a.jpg": (40, 24), "b.jpg": (24, 40)}
    shares = []
    for row in rows:
        name, label, part, *box = row.split(",")
        shares.append(
            ",".join([name, label, part, *(str(int(each) / sizes[name][place % 2]) for place, each in enumerate(box))])
        )
    np.testing.assert_array_equal(table(folder, shares).train.boxes, dataset.train.boxes)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (
            "a.jpg,hat,test,0,0,60,12",
            "line 3: the box 0, 0, 60, 12 is outside the image, which has 40 x 24 pixels: .*a.jpg",
        ),
        ("a.jpg,hat,test,9,0,9,12", "line 3: the box 9, 0, 9, 12 has no area"),
        ("a.jpg,hat,test,0,0,1.2,0.5", "line 3: the box 0, 0, 1.2, 0.5 has fractions above 1"),
        ("a.jpg,hat,test,0,0,0.5,0.5", "has boxes in fractions, such as .*, and in pixels, such as .*. Use one unit"),
        ("a.jpg,hat,test,0,0,left,12", "line 3 must have four numbers, x1,y1,x2,y2. Received: .*'left'"),
        ("a.jpg,hat,test,0,0,20,12", "lists 1 images more than once"),
    ],
)
def test_wrong_boxes_of_a_table_are_named(folder, row, told):
    with pytest.raises(ValueError, match=told) as caught:
        table(folder, ["a.jpg,cup,train,0,0,20,12", row])
    assert "\n" not in str(caught.value)


def test_some_of_the_columns(folder):
    with pytest.raises(
        ValueError, match="objects.csv has no column y2. Expected all of x1,y1,x2,y2 for boxes, or none"
    ):
        table(folder, ["a.jpg,cup,train,0,0,20"], "path,label,split,x1,y1,x2")

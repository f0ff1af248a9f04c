"""Searches from one and several threads; near-duplicates; labels with a calibrated threshold."""

import dataclasses
import io
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from tests.commands import assert_one_error, run
from tests.serving.index.test_index_threshold import FITTED
from tests.serving.index.test_indexing import write_pictures
from tests.serving_fixtures import exported, exported_tolerant, exported_towers, nearly, picture
from tfdml.files.checked import write_record
from tfdml.run.experiment.threshold import Threshold
from tfdml.serving import Neighbor, Searcher
from tfdml.serving.exported_model import ExportedModel, model_hash
from tfdml.serving.image_list import ImageList
from tfdml.serving.index.build import index_images, upgrade_index
from tfdml.serving.index.contact_sheet import draw
from tfdml.serving.index.labeling import Labeled, calibrate, calibrated_on, duplicates, label_images, vote
from tfdml.serving.index.threshold import threshold_for
from tfdml.serving.model_card import METADATA, VERSION


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Twelve photos; two are the same, and one is nearly the same."""
    folder = write_pictures(tmp_path_factory.mktemp("photos"), range(12))
    (folder / "even" / "00 again.png").write_bytes(picture(0))
    pixels = np.asarray(Image.open(io.BytesIO(picture(5)))).copy()
    pixels[:2] = 255
    Image.fromarray(pixels).save(folder / "odd" / "05 again.png")
    return folder


@pytest.fixture(scope="module")
def index(photos, tmp_path_factory):
    out = tmp_path_factory.mktemp("index") / "index"
    index_images(out, ImageList.of(photos), model=exported(), shard_rows=6)
    return out


def test_paths_contents_and_pixels_find_the_same(index, photos):
    searcher, path = Searcher(index), photos / "odd" / "03.png"
    pixels = np.asarray(Image.open(path))
    ways = [path, str(path), path.read_bytes(), pixels, pixels.astype(np.float32), np.asarray(pixels, np.int64)]
    found = searcher.search(ways, k=3)
    assert found[0][0].path == str(path) and found[0][0].similarity == pytest.approx(1, abs=1e-5)
    for each in (*found[1:], *searcher.search(path, k=3), *searcher.search(pixels, k=3)):
        assert [neighbor.path for neighbor in each] == [neighbor.path for neighbor in found[0]]
    assert searcher.search([], k=3) == []


def test_what_cannot_be_searched_for_is_named(index, tmp_path):
    searcher = Searcher(index)
    (tmp_path / "broken.jpg").write_bytes(picture(1, kind="JPEG")[:200])
    for images, words in [
        ([picture(0), tmp_path / "broken.jpg"], "broken.jpg cannot be read"),
        ([picture(0), b"text"], "Image 1 cannot be read"),
        (["none.jpg"], "none.jpg does not exist"),
        ([np.zeros((4, 4))], r"Image 0 must have the shape \[height, width, 3\]"),
        ([np.full((4, 4, 3), 0.5)], "Image 0 has pixels from 0.5 to 0.5. Expected pixels from 0 to 255"),
    ]:
        with pytest.raises(ValueError, match=words):
            searcher.search(images)
    with pytest.raises(ValueError, match="k must be at least 1. Received: k=0"):
        searcher.search([picture(0)], k=0)


def test_no_similarity_is_above_1(index):
    """Rounding in float32 makes inner products of unit vectors larger."""
    searcher = Searcher(index)
    vectors = np.random.default_rng(0).normal(size=(64, searcher.manifest["dimension"])).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rounded = np.einsum("nd,nd->n", vectors, vectors)
    assert rounded.max() > 1
    searcher.store._index = SimpleNamespace(search=lambda queries, k: (rounded[:, None], np.zeros((64, 1), np.int64)))
    similarities, _ = searcher.store.nearest(vectors, 1)
    assert similarities.max() == 1.0 and np.all(similarities[rounded <= 1] == rounded[:, None][rounded <= 1])


def test_threads_find_what_one_finds(index):
    searcher = Searcher(index)
    queries = [[picture(seed), picture(seed + 50)] for seed in range(24)]
    expected = [searcher.search(each, k=4) for each in queries]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda each: searcher.search(each, k=4), queries)) == expected


def test_near_duplicates(index, photos, monkeypatch):
    """The pairs of a comparison of all with all, also where each has more duplicates than are searched first."""
    searcher = Searcher(index)
    paths = [str(path) for path in sorted(photos.rglob("*.png"))]
    embeddings = searcher.embed(paths)
    products = embeddings @ embeddings.T
    for threshold in (0.999, float(np.median(products))):
        rows, columns = np.nonzero(np.triu(products >= threshold, 1))
        expected = {(paths[row], paths[column]) for row, column in zip(rows, columns, strict=True)}
        found = duplicates(searcher, threshold)
        assert {(one.path, other.path) for one, other in found} == expected and expected
        similarities = [one.similarity for one, _ in found]
        assert similarities == sorted(similarities, reverse=True) and min(similarities) >= threshold
    assert [path.split("/")[-1] for path in sorted(each.path for each in duplicates(searcher, 0.9999)[0])] == [
        "00 again.png",
        "00.png",
    ]


def neighbor(label, similarity):
    return Neighbor(0, "", label, similarity)


def test_votes():
    votes = [neighbor("a", 0.9), neighbor("b", 0.8), neighbor("b", 0.7), neighbor(None, 0.6), neighbor("a", 0.5)]
    assert vote(votes) == ("a", 0.9) and vote(votes[:3]) == ("b", 0.8)
    assert vote([neighbor(None, 0.4)]) == (None, 0.4)
    # The same image knows better than any number of others.
    assert vote([neighbor("b", 0.9999999), *[neighbor("a", 0.9)] * 5]) == ("b", 0.9999999)
    assert vote([neighbor("b", 0.95), *[neighbor("a", 0.6)] * 5]) == ("a", 0.6)
    assert vote([neighbor("b", -0.001), *[neighbor("a", -0.9)] * 5], "euclidean") == ("b", -0.001)
    assert vote([neighbor("b", -2.0), neighbor("a", -2.1), neighbor("a", -2.2)], "euclidean") == ("a", -2.1)
    # A distance can be any number, and minus one would be near.
    assert vote([]) == (None, -np.inf)
    assert Labeled("a.jpg", *vote([])).in_json() == {"path": "a.jpg", "label": None, "similarity": None}


def calibrated(threshold, precision, labeled, images, **more):
    return Threshold.of({"threshold": threshold, "precision": precision, "labeled": labeled, "images": images, **more})


def test_the_threshold_labels_as_many_as_the_precision_allows():
    votes = [("a", 0.9), ("a", 0.8), ("b", 0.7), ("a", 0.6), ("b", 0.6), ("b", 0.5)]
    labels = ["a", "a", "a", "a", "b", "new"]
    assert calibrate(votes, labels, 1.0) == calibrated(0.8, 1.0, 2 / 6, 6)
    # Those of equal similarity together.
    assert calibrate(votes, labels, 0.8) == calibrated(0.6, 0.8, 5 / 6, 6)
    assert calibrate(votes, labels, 0.5).value == 0.5
    # Images without a neighbor get no label, whatever the threshold.
    lonely = [*votes, vote([]), vote([])]
    assert calibrate(lonely, [*labels, "a", None], 0.25) == calibrated(0.5, 4 / 6, 6 / 8, 8)
    with pytest.raises(
        ValueError, match="No threshold reaches a precision of 0.9 on 2 .* The highest precision is 0.000"
    ):
        calibrate([("a", 0.9), ("b", 0.8)], ["b", "a"], 0.9)
    with pytest.raises(ValueError, match="No label of the 1 validation .* folder 'A', which get labels such as 'a'"):
        calibrate([("a", 0.9)], ["A"], 0.9)


@pytest.fixture
def validation(photos, tmp_path):
    """Two photos that are nearly those of the index, one of another class, and one that cannot be read."""
    folder = tmp_path / "validation"
    for name in ("even/02.png", "odd/01.png"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(nearly((photos / name).read_bytes()))
    (folder / "other").mkdir()
    (folder / "other" / "new.png").write_bytes(picture(99))
    (folder / "other" / "broken.png").write_bytes(b"text")
    return folder


def test_a_folder_is_labeled_and_strangers_are_unknown(index, photos, validation, tmp_path):
    (tmp_path / "new").mkdir()
    for name, content in {"a.png": picture(4), "b.png": picture(77), "c.png": b"text", "d.png": picture(7)}.items():
        (tmp_path / "new" / name).write_bytes(content)
    searcher = Searcher(index)
    calibration = calibrated_on(searcher, ImageList.of(validation), 1, 1.0)
    found = label_images(searcher, ImageList.of(tmp_path / "new").paths, 1, calibration)
    assert calibration == calibrated(calibration.value, 1.0, pytest.approx(2 / 3), 3, indexed=0)
    assert [each.label for each in found] == ["even", None, None, "odd"]
    assert found[1].similarity < calibration.value <= found[0].similarity and found[2].similarity is None
    with pytest.raises(ValueError, match="a.png has no label"):
        calibrated_on(searcher, ImageList.of(tmp_path / "new"), 1, 0.95)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [False, True])
def test_validation_images_that_are_in_the_index_are_not_their_own_neighbors(
    index, photos, validation, monkeypatch, rounds
):
    """A copy and the photo itself; also where an index gives similarities only roughly."""
    (validation / "odd" / "01.png").write_bytes((photos / "odd" / "01.png").read_bytes())
    (validation / "even" / "04.png").symlink_to(photos / "even" / "04.png")
    searcher, names = Searcher(index), ["even/02.png", "even/04.png", "odd/01.png", "other/new.png"]
    found = searcher.search([validation / name for name in names], k=2)
    # Of the second and third the next one.
    nearest = [found[place][place in (1, 2)] for place in range(4)]
    assert found[1][0].path.endswith(names[1]) and found[2][0].path.endswith(names[2])
    if rounds:
        exact = searcher.store.nearest
        monkeypatch.setattr(
            searcher.store, "nearest", lambda *given: (np.minimum(exact(*given)[0], 0.5), exact(*given)[1])
        )
    votes = [(each.label, min(each.similarity, 0.5) if rounds else each.similarity) for each in nearest]
    expected = calibrate(votes, ["even", "even", "odd", "other"], 0.01)
    found = calibrated_on(searcher, ImageList.of(validation), 1, 0.01)
    assert found.fitted == {**expected.fitted, "indexed": 2, "threshold": pytest.approx(expected.value)}


def test_a_photo_whose_tile_is_in_the_index_is_not_its_own_neighbor(photos, validation, tmp_path, monkeypatch):
    index_images(tmp_path / "index", ImageList.of(photos), model=exported(), tiles="1x1")
    shutil.copy(photos / "odd" / "03.png", validation / "odd")
    searcher = Searcher(tmp_path / "index")
    exact = searcher.store.nearest
    monkeypatch.setattr(searcher.store, "nearest", lambda *given: (np.minimum(exact(*given)[0], 0.5), exact(*given)[1]))
    found = calibrated_on(searcher, ImageList.of(validation), 1, 0.01)
    assert found.fitted["images"] == 4 and found.fitted["indexed"] == 1


def test_queries_and_neighbors_are_drawn(index, photos, tmp_path):
    found = Searcher(index).search([photos / "odd" / "03.png", photos / "even" / "02.png"], k=3)
    found[1][2] = dataclasses.replace(found[1][2], path="gone.png")
    draw([photos / "odd" / "03.png", photos / "even" / "02.png"], found, tmp_path / "found.png")
    sheet = np.asarray(Image.open(tmp_path / "found.png"))
    assert sheet.shape == (2 * 164 + 8, 4 * 136 + 8, 3)
    tile = sheet[8 : 8 + 128, 8 : 8 + 128]
    assert (tile == sheet[8 : 8 + 128, 144 : 144 + 128]).all() and tile.std() > 10
    assert (sheet[172 : 172 + 128, 416 : 416 + 128] == 211).all()


@pytest.mark.nightly
def test_the_command_lists_neighbors_from_a_threshold_on(index, photos, validation, tmp_path):
    query, near, far = (
        str(photos / "odd" / "03.png"),
        str(validation / "even" / "02.png"),
        str(validation / "other" / "new.png"),
    )
    done = run("tfdml.search", f"--index={index}", "--threshold=0.9999", f"--picture={tmp_path}/found.png", query, far)
    nearest = Searcher(index).search([far], k=1)[0][0].similarity
    assert done.stdout.splitlines() == [
        query,
        f"  1.0000  odd  {query}",
        far,
        f"  no image with a similarity of at least --threshold=0.9999; the nearest image has {nearest:.4f}",
    ]
    assert Image.open(tmp_path / "found.png").size == (2 * 136 + 8, 2 * 164 + 8)
    done = run("tfdml.search", f"--index={index}", "--threshold=0.9999", "--format=json", query, far)
    assert [len(each["neighbors"]) for each in json.loads(done.stdout)] == [1, 0]
    for flags in ([query], ["--duplicates"], [f"--label={photos}"]):
        refused = run("tfdml.search", f"--index={index}", "--threshold=2", *flags)
        assert_one_error(refused, "--threshold must be at most 1, because the similarity is a cosine")
    without_effect = {
        "--validation": [query, f"--validation={photos}"],
        "--precision": [f"--label={photos}", "--precision=0.9"],
        "--box": ["--text=red mug", "--box=0,0,0.5,0.5"],
        "--k": ["--duplicates", "--k=3"],
    }
    for name, flags in without_effect.items():
        assert_one_error(run("tfdml.search", f"--index={index}", *flags), f"{name} has no effect here")
    groups = run("tfdml.search", f"--index={index}", "--duplicates", "--groups", "--threshold=-1").stdout
    assert groups.endswith("1 groups of 14 images\n")
    (validation / "even" / "04.png").write_bytes((photos / "even" / "04.png").read_bytes())
    flags = [f"--label={validation / 'even'}", f"--validation={validation}", "--precision=0.01", "--k=1"]
    done = run("tfdml.search", f"--index={index}", *flags)
    assert done.stdout.startswith(
        "1 of 4 validation images are in the index, and were not counted as their own neighbors."
    )
    assert near in done.stdout


@pytest.mark.nightly
def test_another_model_embeds_queries(index, photos):
    """It finds what a search with its vectors finds, and may read texts if it has a tower for them."""
    searcher, student = Searcher(index, query_model=exported_towers()), ExportedModel(exported_towers())
    paths = [photos / "odd" / "03.png", photos / "even" / "04.png"]
    vectors, _ = student.embed_readable([path.read_bytes() for path in paths])
    expected = Searcher(index).search_vectors(vectors, k=4)
    assert [[each.path for each in some] for some in searcher.search(paths, k=4)] == [
        [each.path for each in some] for some in expected
    ]
    assert [each.path for each in Searcher(index).search(paths, k=4)[0]] != [each.path for each in expected[0]]
    assert searcher.has_texts and not Searcher(index).has_texts
    assert searcher.model_digest == student.digest != Searcher(index).model_digest
    flags = [f"--index={index}", f"--query_model={exported_towers()}"]
    lines = run("tfdml.search", *flags, "--k=4", str(paths[0])).stdout.splitlines()
    assert [line.split()[-1] for line in lines[1:]] == [each.path.split()[-1] for each in expected[0]]
    assert_one_error(run("tfdml.search", *flags, "--duplicates"), "--query_model", "compares the images in the index")


def test_a_threshold_of_another_model_is_not_used(index, tmp_path):
    """It separates pairs of embeddings by the index's model."""
    shutil.copytree(index, tmp_path / "index")
    model = tmp_path / "index" / "model"
    card = {"version": VERSION, "sha256": model_hash(model), "embedding": {"metric": "cosine"}}
    write_record(model / METADATA, {**card, "threshold": {**FITTED, "threshold": 0.5}})
    with_threshold, without = Searcher(tmp_path / "index"), Searcher(tmp_path / "index", query_model=exported_towers())
    assert threshold_for(with_threshold).value == 0.5
    assert threshold_for(without).value is None and threshold_for(without, "0.7").value == 0.7


def test_a_query_model_must_fit_the_index(index, tmp_path):
    other = SimpleNamespace(dimension=8, metric="cosine", path=None, digest="other")
    with pytest.raises(ValueError, match=r"16 dimensions and the metric 'cosine'. Received a model with 8 dimensions"):
        Searcher(index, query_model=other)
    with pytest.raises(ValueError, match=r"Received a model with 16 dimensions and 'euclidean'"):
        Searcher(index, query_model=SimpleNamespace(dimension=16, metric="euclidean", path=None, digest="other"))
    # An upgrade changes the space of the index.
    shutil.copytree(index, tmp_path / "index")
    searcher = Searcher(tmp_path / "index", query_model=exported_towers())
    upgrade_index(tmp_path / "index", exported_tolerant())
    with pytest.raises(ValueError, match="was replaced by an index of another model. Open it again."):
        searcher.reopened()

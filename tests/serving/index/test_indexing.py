"""Indexes are made, go on after a kill, grow and shrink, and find what a plain search finds."""

import functools
import json
import shutil

import numpy as np
import pytest

from tests.pipelines.image_files import with_scans
from tests.serving_fixtures import exported, loaded, picture
from tfdml.console.progress_bar import ProgressBar
from tfdml.files import shards as shards_module
from tfdml.files.shards import EmbeddingShards
from tfdml.serving import ExportedModel, Searcher
from tfdml.serving.bulk_embedding import embed_images
from tfdml.serving.exported_model import model_hash
from tfdml.serving.image_list import ImageList
from tfdml.serving.index import build as build_module
from tfdml.serving.index import folder as folder_module
from tfdml.serving.index.build import delete_images, index_embeddings, index_images
from tfdml.serving.index.folder import IndexFolder, build

COUNT = 13


def write_pictures(folder, numbers=range(COUNT)):
    """One file each, in folders of the labels `even` and `odd`."""
    for number in numbers:
        path = folder / ("odd" if number % 2 else "even") / f"{number:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number))
    return folder


def embeddings_of(photos):
    """Paths and embeddings, as the model gives them file by file."""
    paths = sorted(photos.rglob("*.png"))
    embeddings, _ = loaded(model_hash(exported())).embed_readable([path.read_bytes() for path in paths])
    return list(map(str, paths)), embeddings


@pytest.fixture(scope="module")
def index(photos, tmp_path_factory):
    out = tmp_path_factory.mktemp("indexed") / "index"
    assert index_images(out, ImageList.of(photos), model=exported(), shard_rows=5, batch_size=3) == (COUNT, {})
    return out


def assert_finds(out, paths, embeddings):
    """A searcher finds what comparing with all embeddings finds."""
    searcher = Searcher(out)
    products = embeddings @ embeddings.T
    found = searcher.search(paths, k=4)
    for query, neighbors in enumerate(found):
        best = np.argsort(-products[query], kind="stable")[:4]
        assert [each.path for each in neighbors] == [paths[row] for row in best]
        np.testing.assert_allclose([each.similarity for each in neighbors], products[query][best], atol=1e-5)
    return searcher


def test_an_interrupted_indexing_goes_on(photos, expected, index, tmp_path, monkeypatch):
    """Killed after any shard, also between shards and index: what is embedded is not embedded again."""
    embedded, real = [], ExportedModel.embed_readable

    def counting(self, contents):
        embedded.extend(contents)
        return real(self, contents)

    def killed(self, *arguments):
        append(self, *arguments)
        raise KeyboardInterrupt

    append, build = EmbeddingShards.append, build_module.build
    monkeypatch.setattr(ExportedModel, "embed_readable", counting)
    # The small copies that an index keeps are embedded besides.
    monkeypatch.setattr(build_module, "keep_probes", lambda *_: None)
    arguments = {"model": exported(), "shard_rows": 5, "batch_size": 3}
    for target, name, instead in ((EmbeddingShards, "append", killed), (build_module, "build", lambda *_, **__: 1 / 0)):
        monkeypatch.setattr(target, name, instead)
        with pytest.raises((KeyboardInterrupt, ZeroDivisionError)):
            index_images(tmp_path / "index", ImageList.of(photos), **arguments)
        monkeypatch.setattr(target, name, {"append": append, "build": build}[name])
    assert not (tmp_path / "index" / "manifest.json").exists()
    (tmp_path / "index" / "embeddings" / "shard-000007.parquet").write_bytes(b"half")
    assert index_images(tmp_path / "index", ImageList.of(photos), **arguments) == (COUNT, {})
    assert len(embedded) == COUNT == len(set(embedded))
    # The copy of the model in the index, whose hash is the same, was used in the second and the third time.
    assert_finds(tmp_path / "index", *expected)
    manifests = [json.loads((each / "manifest.json").read_text()) for each in (index, tmp_path / "index")]
    assert manifests[0] == manifests[1]


@pytest.mark.parametrize("step", ["write_manifest", "fingerprint", "flush"])
def test_a_kill_while_an_index_is_written_leaves_the_earlier_one_whole(step, photos, expected, tmp_path, monkeypatch):
    out, few = tmp_path / "index", ImageList.of(photos / "odd")
    for images, options in ((few, {"model": exported()}), (ImageList.of(photos), {"add": True})):
        with monkeypatch.context() as patch:
            patch.setattr(folder_module, step, lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                index_images(out, images, **options)
        if images is not few:
            assert len(Searcher(out)) == len(few)
        index_images(out, images, **options)
    assert sorted(file.name for file in out.glob("i*-*")) == ["images-1.parquet", "index-1.faiss"]
    rows = [row for part in ("odd", "even") for row, path in enumerate(expected[0]) if part in path]
    assert_finds(out, [expected[0][row] for row in rows], expected[1][rows])


def test_adding_to_an_index_tells_how_far_it_is(photos, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(folder_module, "ProgressBar", functools.partial(ProgressBar, every=0.0))
    index_images(tmp_path / "index", ImageList.of(photos), model=exported(), shard_rows=8)
    told = [line.partition(",")[0] for line in capsys.readouterr().out.splitlines()]
    assert told == ["8/13 vectors", "13/13 vectors"]


def test_another_list_does_not_go_on_with_it(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(build_module, "build", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        index_images(tmp_path / "index", ImageList.of(photos), model=exported())
    monkeypatch.undo()
    with pytest.raises(ValueError, match="contains an interrupted indexing of other images, such as .*00.png"):
        index_images(tmp_path / "index", ImageList.of(photos / "odd"), model=exported())
    embed_images(tmp_path / "few", ImageList.of(photos / "odd"), model=exported())
    embed_images(tmp_path / "all", ImageList.of(photos), model=exported())
    with pytest.raises(ValueError, match="contains an interrupted indexing of other images, such as .*00.png"):
        index_embeddings(tmp_path / "index", tmp_path / "few", model=exported())
    assert index_embeddings(tmp_path / "index", tmp_path / "all", model=exported())[0] == COUNT


@pytest.mark.parametrize("embedded", [False, True])
def test_files_that_no_manifest_has_are_replaced(embedded, photos, tmp_path, monkeypatch):
    def index():
        if embedded:
            return index_embeddings(tmp_path / "index", tmp_path / "embedded", model=exported())[0]
        return index_images(tmp_path / "index", ImageList.of(photos), model=exported())[0]

    embed_images(tmp_path / "embedded", ImageList.of(photos), model=exported())
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(shards_module, "write_manifest", lambda *_: 1 / 0)
        index()
    assert (tmp_path / "index" / "embeddings").is_dir()
    assert index() == COUNT and len(Searcher(tmp_path / "index")) == COUNT


def test_what_could_not_be_read_of_another_list_is_forgotten(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(build_module, "build", lambda *_, **__: 1 / 0)
    (tmp_path / "wrong.txt").write_text("nowhere/00.png")
    with pytest.raises(ZeroDivisionError):
        index_images(tmp_path / "index", ImageList.of(tmp_path / "wrong.txt"), model=exported())
    monkeypatch.undo()
    assert index_images(tmp_path / "index", ImageList.of(photos), model=exported()) == (13, {})


def test_images_that_cannot_be_read_are_listed_and_left_out(photos, tmp_path):
    shutil.copytree(photos, tmp_path / "photos")
    bad = {"even/00.png": b"no image", "odd/01.png": b"", "odd/03.png": picture(3)[:100]}
    bad["odd/05.png"] = with_scans(110, 3200)
    for name, content in bad.items():
        (tmp_path / "photos" / name).write_bytes(content)
    count, reasons = index_images(tmp_path / "index", ImageList.of(tmp_path / "photos"), model=exported())
    assert count == COUNT - 4 and reasons == {
        str(tmp_path / "photos" / name): reasons[str(tmp_path / "photos" / name)] for name in bad
    }
    assert "not a JPEG, PNG or WebP" in reasons[str(tmp_path / "photos/even/00.png")]
    assert reasons[str(tmp_path / "photos/odd/01.png")] == "the file is empty"
    assert "the image has 110 scans" in reasons[str(tmp_path / "photos/odd/05.png")]
    lines = (tmp_path / "index" / "bad_images.jsonl").read_text().splitlines()
    assert {each["image"]: each["reason"] for each in map(json.loads, lines)} == reasons
    # One that is repaired can be added.
    (tmp_path / "photos" / "odd/01.png").write_bytes(picture(1))
    count, reasons = index_images(tmp_path / "index", ImageList.of(tmp_path / "photos"), add=True)
    assert count == COUNT - 3 and len(reasons) == 3


def test_a_model_without_unit_length_is_searched_by_euclidean_distance(photos, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(ExportedModel, "metric", "euclidean")
    index_images(tmp_path / "index", ImageList.of(photos), model=exported())
    searcher = Searcher(tmp_path / "index")
    distances = np.linalg.norm(2 * expected[1][:1] - expected[1], axis=1)
    similarities, rows = searcher.store.nearest(2 * expected[1][:1], 3)
    assert rows[0].tolist() == np.argsort(distances)[:3].tolist()
    np.testing.assert_allclose(similarities[0], -np.sort(distances)[:3], atol=1e-5)


def test_images_in_memory_become_files_of_the_index(tmp_path):
    contents = np.array([picture(seed, kind="JPEG") for seed in range(3)], dtype=object)
    images = ImageList([f"images/test-{row}.jpg" for row in range(3)], ["a", "b", "c"], contents)
    index_images(tmp_path / "index", images, model=exported())
    shutil.move(tmp_path / "index", tmp_path / "moved")
    files = sorted((tmp_path / "moved" / "images").iterdir())
    assert [file.read_bytes() for file in files] == contents.tolist()
    found = Searcher(tmp_path / "moved").search(files, k=1)
    assert [neighbors[0].path for neighbors in found] == list(map(str, files))
    assert delete_images(tmp_path / "moved", [str(files[1])]) == (1, 2) and not files[1].exists()


def test_what_an_index_is_not_made_of(photos, index, tmp_path):
    with pytest.raises(ValueError, match="contains an index. Use --add"):
        index_images(index, ImageList.of(photos), model=exported())
    with pytest.raises(ValueError, match="For exact search, use flat"):
        index_images(tmp_path / "out", ImageList.of(photos), model=exported(), kind="exact")
    with pytest.raises(ValueError, match="is not empty and contains no index"):
        index_images(photos, ImageList.of(photos), model=exported())
    with pytest.raises(ValueError, match="--model is missing"):
        index_images(tmp_path / "out", ImageList.of(photos))
    damaged = shutil.copytree(index, tmp_path / "damaged")
    shutil.rmtree(damaged / "model")
    with pytest.raises(ValueError, match="damaged is damaged: .*/damaged/model is missing. Create the index again"):
        index_images(damaged, ImageList.of(photos), model=exported(), add=True)
    with pytest.raises(ValueError, match="is not a tfdml index, because it does not exist"):
        index_images(tmp_path / "none", ImageList.of(photos), add=True)
    with pytest.raises(FileNotFoundError, match="is not a folder, a file"):
        ImageList.of(str(tmp_path / "nothing"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="contains no images. Expected files that end in .jpg"):
        ImageList.of(tmp_path / "empty")


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_a_compressed_index_whose_table_is_larger_than_its_file_opens(metric, tmp_path):
    rows = np.random.default_rng(0).normal(size=(300, 128)).astype(np.float32)
    folder = IndexFolder(tmp_path)
    shards = EmbeddingShards.create(folder.embeddings, model="none", dimension=128)
    shards.append([f"/{row}.jpg" for row in range(len(rows))], [None] * len(rows), rows)
    build(folder, shards, "pq(lists=64, bits=8, probes=64)", metric)
    queries = rows if metric == "euclidean" else rows / np.linalg.norm(rows, axis=1, keepdims=True)
    _, found = folder.read_index(folder.manifest()).search(queries, 1)
    assert np.mean(found[:, 0] == np.arange(len(rows))) > 0.95

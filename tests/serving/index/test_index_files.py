"""Files of an index that are damaged, of another version, or made by hand are refused with one line."""

import contextlib
import json
import shutil

import faiss
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from tests.serving_fixtures import exported, exported_tolerant, picture
from tfdml.files.checked import fingerprint
from tfdml.files.shards import EmbeddingShards
from tfdml.serving import Searcher
from tfdml.serving.image_list import ImageList
from tfdml.serving.index.build import delete_images, index_images
from tfdml.serving.index.folder import IndexFolder
from tfdml.serving.index.labeling import duplicates


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("index")
    contents = np.array([picture(seed) for seed in range(4)], dtype=object)
    images = ImageList([f"images/{row}.png" for row in range(4)], [None] * 4, contents)
    index_images(folder / "index", images, model=exported())
    return folder / "index"


@pytest.fixture
def index(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "index")


def change(path, **entries):
    """Changes entries of a manifest; None removes one."""
    found = {**json.loads(path.read_text()), **entries}
    path.write_text(json.dumps({name: value for name, value in found.items() if value is not None}))


def truncated(path):
    path.write_bytes(path.read_bytes()[:-20])


def flipped(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def pairs(index):
    return duplicates(Searcher(index), 0.5)


def refusal(index, read=Searcher):
    with pytest.raises(ValueError) as caught:
        read(index)
    message = str(caught.value)
    assert "\n" not in message and str(index) in message, message
    return message


@pytest.mark.parametrize("damage", [truncated, flipped, lambda path: path.unlink(), lambda path: path.write_bytes(b"")])
@pytest.mark.parametrize("name", ["index-0.faiss", "images-0.parquet"])
def test_a_damaged_file_is_refused_before_it_is_read(index, name, damage):
    damage(index / name)
    assert name in refusal(index)


def test_a_damaged_copy_of_the_model_is_refused(index):
    flipped(index / "model" / "variables" / "variables.data-00000-of-00001")
    assert "does not belong to the index" in refusal(index)
    (index / "model" / "saved_model.pb").unlink()
    assert "no saved_model.pb" in refusal(index)


def test_damaged_embeddings_are_refused(index):
    flipped(index / "embeddings" / "shard-000000.parquet")
    assert "shard-000000.parquet is damaged" in refusal(index, pairs)
    (index / "embeddings" / "shard-000000.parquet").write_bytes(b"PAR1" * 9)
    manifest = index / "embeddings" / "manifest.json"
    about = fingerprint(index / "embeddings" / "shard-000000.parquet")
    for shards, words in [
        ({"rows": 4, **about}, "not a shard of embeddings"),
        (about, "is damaged"),
        (4, "is damaged"),
    ]:
        change(manifest, shards={"shard-000000.parquet": shards})
        assert words in refusal(index, pairs)


@pytest.mark.parametrize(
    "entries, words",
    [
        ({"version": 2}, "has the format version 2, but this version of tfdml reads version 1"),
        ({"format": "other"}, "is not the manifest of a tfdml index"),
        ({"count": None}, "count is missing"),
        ({"dimension": "16"}, "dimension is missing or wrong"),
        ({"metric": "manhattan"}, "metric is missing or wrong"),
        ({"count": 3}, "4 vectors with 16 dimensions"),
        ({"dimension": 8}, "4 vectors with 16 dimensions"),
        ({"metric": "euclidean"}, "does not match the manifest"),
        ({"generation": 7}, "index-7.faiss is missing"),
        ({"index": {}}, "is damaged"),
        ({"deleted": 3}, "is damaged: the entry deleted is missing or wrong"),
        ({"deleted": {"number": 0}}, "deleted-0-0.bits is missing"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(index, entries, words):
    change(index / "manifest.json", **entries)
    assert words in refusal(index)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000])
def test_a_manifest_that_is_none_is_refused(index, text):
    (index / "manifest.json").write_text(text)
    assert "manifest.json" in refusal(index)


@contextlib.contextmanager
def linked(path, outside):
    """Meanwhile a file or a folder is outside of the index, and a link leads to it."""
    shutil.move(path, outside)
    path.symlink_to(outside)
    yield
    path.unlink()
    shutil.move(outside, path)


def test_an_index_that_points_outside_its_folder_is_refused(index, tmp_path):
    """By links, by the names of shards, by the paths of images, by the model."""

    def search(path):
        return Searcher(path).search([picture(0)])

    outside = tmp_path / "outside"
    for name, read, words in (
        ("index-0.faiss", Searcher, "not a file in this folder"),
        ("embeddings", pairs, "embeddings is a link that leads out of the index"),
        ("model/variables", Searcher, "is a link that leads out of the index"),
        ("images", search, "leads out of the index"),
        ("images/0.png", search, "leads out of the index"),
    ):
        with linked(index / name, outside):
            assert words in refusal(index, read)
    shards = index / "embeddings" / "manifest.json"
    (about,) = json.loads(shards.read_text())["shards"].values()
    change(shards, shards={"../../outside": about})
    assert "'../../outside', which is not a shard" in refusal(index, pairs)
    table = pyarrow.parquet.read_table(index / "images-0.parquet")
    paths = pyarrow.array(["../secret.png", *table["path"].to_pylist()[1:]])
    pyarrow.parquet.write_table(table.set_column(1, "path", paths), index / "images-0.parquet")
    change(index / "manifest.json", images=fingerprint(index / "images-0.parquet"))
    assert "'../secret.png', which leads out of the index" in refusal(index)


WRITTEN = [".writing-manifest.json", "index-1.faiss", "images-1.parquet", "bad_images.jsonl"]
WRITTEN += ["embeddings/.writing-manifest.json", "embeddings/.writing-shard-000001.parquet"]


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.few_by_day(2)
def test_no_file_is_written_through_a_link(index, tmp_path, name):
    precious = tmp_path / "precious"
    precious.write_bytes(b"mine")
    (index / name).symlink_to(precious)
    for file, content in (("new.png", picture(9)), ("bad.png", b"text")):
        (tmp_path / file).write_bytes(content)
    assert index_images(index, ImageList.of(tmp_path / "*.png"), add=True)[0] == 5
    assert precious.read_bytes() == b"mine" and len(Searcher(index)) == 5
    assert not (index / name).is_symlink()


def test_a_lock_that_is_a_link_is_refused(index, tmp_path):
    (tmp_path / "precious").write_bytes(b"mine")
    (index / ".lock").unlink()
    (index / ".lock").symlink_to(tmp_path / "precious")
    message = refusal(index, lambda path: delete_images(path, ["images/0.png"]))
    assert message == f"{index}/.lock is a link, which may lead to any file. Do not use it."
    assert (tmp_path / "precious").read_bytes() == b"mine"


def test_folders_that_are_links_out_of_the_index_are_not_written_to(index, tmp_path):
    contents = np.array([picture(9)], dtype=object)
    new = ImageList(["images/9.png"], [None], contents)
    for name, words in (("embeddings", "is a link that leads out of the index"), ("images", "leads out of the index")):
        before = sorted(path.name for path in (index / name).iterdir())
        with linked(index / name, tmp_path / name):
            assert words in refusal(index, lambda path: index_images(path, new, add=True))
            assert words in refusal(index, lambda path: delete_images(path, ["images/0.png"]))
        assert sorted(path.name for path in (index / name).iterdir()) == before
    assert len(Searcher(index)) == 4 == len(EmbeddingShards(index / "embeddings"))

    unfinished, outside = tmp_path / "unfinished", tmp_path / "outside"
    unfinished.mkdir(), outside.mkdir(), (unfinished / ".lock").touch()
    (unfinished / ".writing-model").symlink_to(outside)
    (unfinished / "model").symlink_to(outside)
    index_images(unfinished, new, model=exported())
    assert not list(outside.iterdir()) and len(Searcher(unfinished)) == 1


def test_what_is_no_index_of_faiss_and_no_table_is_refused(index):
    """With fingerprints that fit."""
    for name, kind in (("index-0.faiss", "index"), ("images-0.parquet", "images")):
        (index / name).write_bytes(b"IxFI" + b"\xff" * 200)
        change(index / "manifest.json", **{kind: fingerprint(index / name)})
    folder = IndexFolder(index)
    assert "images-0.parquet" in refusal(index, lambda _: folder.read_rows(folder.manifest()))
    assert "index-0.faiss" in refusal(index)


@pytest.mark.parametrize("is_open", [False, True])
def test_an_index_that_is_written_while_it_is_read_is_read_again(index, tmp_path, monkeypatch, is_open):
    (tmp_path / "new.png").write_bytes(picture(9))
    images, read, left = ImageList([str(tmp_path / "new.png")], [None]), IndexFolder.read_rows, [None]
    store = Searcher(index).store

    def written_meanwhile(*given):
        if left:
            left.pop()
            index_images(index, images, add=True)
        return read(*given)

    if is_open:
        store.open()
        delete_images(index, ["images/0.png"], compact=False)
    monkeypatch.setattr(IndexFolder, "read_rows", written_meanwhile)
    found = store.reopened() if is_open else Searcher(index).store
    assert found.count() == (4 if is_open else 5) and not left


def test_the_limit_of_faiss_is_as_before(index):
    before = faiss.get_deserialization_vector_byte_limit()
    Searcher(index)
    assert faiss.get_deserialization_vector_byte_limit() == before


def test_another_model_is_refused(index, tmp_path):
    """Without the images that the index keeps to recognize its model in other files."""
    (index / "probes.json").unlink()
    other = exported_tolerant()
    for use in (
        lambda path: Searcher(path, model=other),
        lambda path: index_images(path, ImageList(["x"], [None]), model=other, add=True),
    ):
        message = refusal(index, use)
        assert message.startswith(f"The model {other} does not belong to the index {index}")

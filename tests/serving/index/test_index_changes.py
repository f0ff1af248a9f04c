"""Images are added to indexes and deleted from them, and rows and vectors belong together."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.serving.index.test_indexing import COUNT, assert_finds
from tests.serving_fixtures import exported, picture
from tfdml.files.shards import EmbeddingShards
from tfdml.serving import Searcher
from tfdml.serving.image_list import ImageList
from tfdml.serving.index import build
from tfdml.serving.index.build import delete_images, index_images
from tfdml.serving.index.folder import DELETION, IndexFolder
from tfdml.serving.index.labeling import duplicates


@pytest.mark.parametrize("kind", ["flat", "ivf(lists=3, probes=3)", "hnsw"])
def test_added_and_deleted_images(kind, photos, expected, tmp_path):
    paths, embeddings = expected
    first, out = [path for path in paths if "odd" in path], tmp_path / "index"
    index_images(out, ImageList.of(photos / "odd"), model=exported(), kind=kind, shard_rows=4)
    ids = {each.path: each.id for each in Searcher(out).search(first[:1], k=COUNT)[0]}
    for more in (["even/00.png"], ["even/00.png", *[f"even/{number:02d}.png" for number in range(2, COUNT, 2)]]):
        (tmp_path / "list.txt").write_text("".join(f"{photos / name}\teven\n" for name in more))
        index_images(out, ImageList.of(tmp_path / "list.txt"), add=True)
    rows = [paths.index(each) for each in (*first, *(path for path in paths if "even" in path))]
    searcher = assert_finds(out, [paths[row] for row in rows], embeddings[rows])
    found = {each.path: each.id for each in searcher.search(paths[:1], k=COUNT)[0]}
    assert {path: found[path] for path in ids} == ids and len(set(found.values())) == COUNT

    assert delete_images(out, [paths[0], paths[9], paths[0]]) == (2, COUNT - 2)
    left = [row for row in rows if row not in (0, 9)]
    searcher = assert_finds(out, [paths[row] for row in left], embeddings[left])
    assert {path: number for path, number in found.items() if path not in (paths[0], paths[9])} == {
        each.path: each.id for each in searcher.search(paths[:1], k=COUNT)[0]
    }
    held = b"".join(file.read_bytes() for file in (*out.glob("*.*"), *(out / "embeddings").iterdir()))
    assert paths[1].encode() in held and paths[0].encode() not in held
    with pytest.raises(ValueError, match=f"{paths[0]} is not in the index"):
        delete_images(out, [paths[0], paths[1]])
    with pytest.raises(ValueError, match="These are all images"):
        delete_images(out, [paths[row] for row in left])


def test_added_and_deleted_images_of_compressed_vectors(photos, expected, tmp_path):
    """An index `pq` finds most of the nearest images, and never one that was deleted."""
    paths, embeddings = expected
    out = tmp_path / "index"
    index_images(out, ImageList.of(photos / "odd"), model=exported(), kind="pq(subvectors=8, bits=2)")
    index_images(out, ImageList.of(photos / "even"), add=True)
    assert_finds_most(out, paths, embeddings)
    assert delete_images(out, paths[:3]) == (3, COUNT - 3)
    assert_finds_most(out, paths[3:], embeddings[3:])


def assert_finds_most(out, paths, embeddings, k=4):
    """A searcher's lists have most of the images that comparing with all embeddings finds."""
    searcher = Searcher(out)
    found = [{each.path for each in neighbors} for neighbors in searcher.search(paths, k)]
    best = np.argsort(-embeddings @ embeddings.T, axis=1)[:, :k]
    shared = [len(names & {paths[row] for row in rows}) for names, rows in zip(found, best, strict=True)]
    assert len(searcher) == len(paths) and np.mean(shared) >= 0.6 * k, shared
    assert set().union(*found) <= set(paths)


def test_a_deletion_that_leaves_too_few_images_for_the_kind_deletes_nothing(photos, expected, tmp_path):
    paths, embeddings = expected[0][:6], expected[1][:6]
    (tmp_path / "list.txt").write_text("\n".join(paths))
    out = tmp_path / "index"
    index_images(out, ImageList.of(tmp_path / "list.txt"), model=exported(), kind="ivf(lists=5, probes=5)")
    with pytest.raises(ValueError, match=r"^4 images would be left, so nothing was deleted: ivf\(lists=5\) needs"):
        delete_images(out, paths[:2])
    assert EmbeddingShards(out / "embeddings").paths() == set(paths)
    assert_finds(out, paths, embeddings)


def test_after_an_interrupted_deletion_rows_and_vectors_belong_together(photos, expected, tmp_path, monkeypatch):
    """The embeddings are deleted, and the index has them marked; then it is searched, and images are added."""
    paths, embeddings = expected
    first, out = [path for path in paths if "odd" in path], tmp_path / "index"
    index_images(out, ImageList.of(photos / "odd"), model=exported(), shard_rows=4)
    with monkeypatch.context() as patch:
        patch.setattr(build, "build", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            delete_images(out, first[:2])
    left = [paths.index(path) for path in first[2:]]
    searcher = assert_finds(out, first[2:], embeddings[left])
    assert len(duplicates(searcher, -1)) == len(left) * (len(left) - 1) // 2
    (tmp_path / "list.txt").write_text("\n".join(path for path in paths if "even" in path))
    index_images(out, ImageList.of(tmp_path / "list.txt"), add=True)
    rows = [paths.index(each) for each in (*first[2:], *(path for path in paths if "even" in path))]
    searcher = assert_finds(out, [paths[row] for row in rows], embeddings[rows])
    assert len(duplicates(searcher, -1)) == len(rows) * (len(rows) - 1) // 2


class Killed(BaseException):
    pass


def killed(*_, **__):
    raise Killed


# Where a deletion is killed: before anything is done, and behind the embeddings, the index, and the image.
KILLED_AT = {
    "shards": (EmbeddingShards, "remove"),
    "index": (build, "build"),
    "image": (type(Path()), "unlink"),
    "note": (IndexFolder, "end_deletion"),
}


@pytest.fixture(scope="module")
def whole_in_memory(tmp_path_factory):
    """An index that has its images with it."""
    out = tmp_path_factory.mktemp("in memory") / "index"
    contents = np.array([picture(seed) for seed in range(4)], dtype=object)
    index_images(out, ImageList([f"images/{row}.png" for row in range(4)], [None] * 4, contents), model=exported())
    return out


@pytest.fixture
def in_memory(whole_in_memory, tmp_path):
    return shutil.copytree(whole_in_memory, tmp_path / "index")


def delete_and_kill(out, at, monkeypatch):
    with monkeypatch.context() as patch:
        owner, name = KILLED_AT[at]
        whole = getattr(owner, name)

        def stopped(*given, **more):
            # Files that are replaced are removed, too.
            return whole(*given, **more) if at == "image" and given[0].parent.name != "images" else killed()

        patch.setattr(owner, name, stopped)
        with pytest.raises(Killed):
            delete_images(out, ["images/1.png"])


def assert_deleted(out, names):
    assert sorted(path.name for path in (out / "images").iterdir()) == names and not (out / "deletion.json").exists()
    searcher = Searcher(out)
    assert {Path(each.path).name for each in searcher.search([picture(0)], k=9)[0]} == set(names)
    assert EmbeddingShards(out / "embeddings").paths() == {f"images/{name}" for name in names}


@pytest.mark.parametrize("at", KILLED_AT)
def test_the_same_command_ends_a_deletion_that_was_killed(in_memory, at, monkeypatch):
    delete_and_kill(in_memory, at, monkeypatch)
    assert delete_images(in_memory, ["images/1.png"]) == (1, 3)
    assert_deleted(in_memory, ["0.png", "2.png", "3.png"])
    # It was killed after its last write, and is repeated.
    assert delete_images(in_memory, ["images/1.png"]) == (0, 3)
    assert_deleted(in_memory, ["0.png", "2.png", "3.png"])


@pytest.mark.parametrize("at", KILLED_AT)
def test_any_other_command_ends_a_deletion_that_was_killed(in_memory, at, monkeypatch):
    delete_and_kill(in_memory, at, monkeypatch)
    contents = np.array([picture(9)], dtype=object)
    assert index_images(in_memory, ImageList(["images/9.png"], [None], contents), add=True)[0] == 4
    assert_deleted(in_memory, ["0.png", "2.png", "3.png", "9.png"])
    assert delete_images(in_memory, ["images/9.png", "images/0.png"]) == (2, 2)


def test_a_note_of_a_deletion_leads_to_no_other_file(in_memory, tmp_path):
    (tmp_path / "precious").write_text("mine")
    IndexFolder(in_memory).begin_deletion({"../precious"})
    with pytest.raises(ValueError, match="leads out of the index"):
        delete_images(in_memory, ["images/1.png"])
    (in_memory / "deletion.json").write_text(json.dumps({"format": DELETION, "version": 1, "images": [3]}))
    with pytest.raises(ValueError, match="deletion.json is damaged"):
        delete_images(in_memory, ["images/1.png"])
    assert (tmp_path / "precious").exists() and len(Searcher(in_memory)) == 4

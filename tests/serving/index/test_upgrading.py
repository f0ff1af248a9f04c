"""An index gets another model: beside the old one, on and on after kills, and at once at the end."""

import shutil

import numpy as np
import pytest

from tests.serving.index.test_indexing import COUNT, write_pictures
from tests.serving_fixtures import exported, exported_tolerant, picture
from tfdml.files.shards import EmbeddingShards
from tfdml.serving import Searcher
from tfdml.serving.image_list import ImageList
from tfdml.serving.index import build
from tfdml.serving.index.build import delete_images, index_images, upgrade_index
from tfdml.serving.index.folder import IndexFolder


@pytest.fixture
def photos(tmp_path):
    return write_pictures(tmp_path / "photos")


@pytest.fixture
def index(photos, tmp_path):
    """An index whose last image is deleted, and whose images have no other numbers than before."""
    out = tmp_path / "index"
    index_images(out, ImageList.of(photos), model=exported())
    delete_images(out, [photos / "odd" / "03.png"], compact=False)
    return out


def rows_of(out):
    rows = IndexFolder(out).read_rows(IndexFolder(out).manifest())
    return {
        int(id): (path, label)
        for id, path, label, deleted in zip(rows.ids, rows.paths, rows.labels, rows.deleted, strict=True)
        if not deleted
    }


def test_all_images_are_embedded_again_and_ids_and_labels_stay(index, photos):
    before, rows = Searcher(index), rows_of(index)
    assert upgrade_index(index, exported_tolerant()) == COUNT - 1
    manifest = IndexFolder(index).manifest()
    assert manifest["upgrades"] == 1 and rows_of(index) == rows
    assert not (index / "model").exists() and not (index / "embeddings").exists()
    found = Searcher(index)
    assert found.manifest["model"] != before.manifest["model"]
    assert found.search([picture(4)], k=1)[0][0].path.endswith("04.png")
    # One that was open goes on, and never mixes the two.
    assert before.store.nearest(np.ones((1, 16)), 3)[1].shape == (1, 3)
    with pytest.raises((ValueError, OSError)):
        EmbeddingShards(before.store.embeddings)
    # It grows and shrinks as before, and no number comes again.
    (photos / "odd" / "03.png").unlink()
    (photos / "new.png").write_bytes(picture(99))
    index_images(index, ImageList.of(photos), add=True)
    assert max(rows_of(index)) == COUNT
    delete_images(index, [photos / "new.png"])
    upgrade_index(index, exported())
    assert IndexFolder(index).manifest()["upgrades"] == 2 and rows_of(index).keys() <= set(range(COUNT))
    assert EmbeddingShards(IndexFolder(index).embeddings).manifest["next_id"] >= COUNT + 1


def test_an_interrupted_upgrade_goes_on_and_searches_find_what_they_found(index, monkeypatch):
    before, real, embedded = Searcher(index).search([picture(5)], k=4), build.embed_rows, []

    def counting(images, rows, *given, **more):
        embedded.extend(rows)
        if len(embedded) > 6:
            raise KeyboardInterrupt
        return real(images, rows, *given, **more)

    monkeypatch.setattr(build, "embed_rows", counting)
    with pytest.raises(KeyboardInterrupt):
        upgrade_index(index, exported_tolerant(), shard_rows=3)
    assert Searcher(index).search([picture(5)], k=4) == before
    # Meanwhile another image goes.
    delete_images(index, [next(path for path, _ in rows_of(index).values())])
    monkeypatch.setattr(
        build,
        "embed_rows",
        lambda images, rows, *given, **more: (embedded.extend(rows), real(images, rows, *given, **more))[1],
    )
    embedded.clear()
    assert upgrade_index(index, exported_tolerant(), shard_rows=3) == COUNT - 2
    assert len(embedded) == COUNT - 1 - 6
    assert sorted(rows_of(index)) == sorted({each.id for each in Searcher(index).search([picture(5)], k=99)[0]})


def test_another_model_begins_anew(index, monkeypatch, tmp_path):
    monkeypatch.setattr(build, "build", lambda *given, **more: pytest.fail("stopped"))
    with pytest.raises(pytest.fail.Exception):
        upgrade_index(index, exported_tolerant())
    monkeypatch.undo()
    shards = EmbeddingShards(index / "embeddings-1")
    assert len(shards) == COUNT - 1
    shutil.rmtree(index / "model-1")
    assert upgrade_index(index, exported_tolerant()) == COUNT - 1


def test_an_image_that_is_gone_stops_it_before_anything_changes(index, photos):
    (photos / "odd" / "05.png").rename(photos / "aside")
    manifest = IndexFolder(index).manifest()
    with pytest.raises(ValueError, match=r"1 of 12 images cannot be read, first .*05.png: .*The index stays as it was"):
        upgrade_index(index, exported_tolerant())
    assert IndexFolder(index).manifest() == manifest
    (photos / "aside").rename(photos / "odd" / "05.png")
    assert upgrade_index(index, exported_tolerant()) == COUNT - 1


def test_what_a_kill_has_left_of_an_upgrade_goes_with_the_next_command(index, monkeypatch):
    monkeypatch.setattr(build, "_remove_before", lambda *_: None)
    upgrade_index(index, exported_tolerant())
    monkeypatch.undo()
    assert (index / "model").is_dir() and (index / "embeddings").is_dir()
    assert upgrade_index(index, exported_tolerant()) == 0
    assert {path.name for path in index.iterdir() if path.is_dir()} == {"model-1", "embeddings-1"}


def test_what_is_refused(index, tmp_path):
    assert upgrade_index(index, exported()) == 0
    with pytest.raises((ValueError, OSError), match="nothing"):
        upgrade_index(tmp_path / "nothing", exported())

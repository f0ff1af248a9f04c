"""An index gets another model: beside the old one, on and on after kills, and at once at the end."""

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import psycopg
import pytest

from tests.serving.index.store_places import place, postgresql, server
from tests.serving.index.test_indexing import COUNT, write_pictures
from tests.serving.index.test_stores import table
from tests.serving_fixtures import exported, exported_tolerant, loaded, picture
from tfdml.files.shards import EmbeddingShards
from tfdml.serving import Searcher
from tfdml.serving.exported_model import model_hash
from tfdml.serving.image_list import ImageList
from tfdml.serving.index import build
from tfdml.serving.index.attributes import attributes_of
from tfdml.serving.index.build import delete_images, index_images, upgrade_index
from tfdml.serving.index.folder import IndexFolder
from tfdml.serving.index.searcher import searcher_of
from tfdml.serving.index.stores import engine
from tfdml.serving.index.stores.engine import load_images, upgrade_engine
from tfdml.serving.index.stores.store import open_store


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


@pytest.mark.nightly
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
    with pytest.raises(
        ValueError, match=r"1 of 12 images cannot be read, for example .*05.png: .*The index has not changed"
    ):
        upgrade_index(index, exported_tolerant())
    assert IndexFolder(index).manifest() == manifest
    (photos / "aside").rename(photos / "odd" / "05.png")
    assert upgrade_index(index, exported_tolerant()) == COUNT - 1


@pytest.mark.slow
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


MODEL, NEXT, ROWS = "keras-1", "keras-2", 20


@pytest.fixture(params=["postgresql", "qdrant"])
def address(request, tmp_path):
    return place(request.param, tmp_path)


def fill(address, images):
    prices = attributes_of({"price": list(range(len(images)))}, images.paths)
    with open_store(address, model=model_hash(exported()), kind="hnsw") as store:
        load_images(store, images, loaded(model_hash(exported())), prices)


def rows_in(address):
    """Id to path, label, and whether it is cheap."""
    with open_store(address) as store:
        found, cheap = (store.search(np.eye(1, 16), 1000, where)[0] for where in (None, "price < 5"))
        return {each.id: (each.path, each.label, each in cheap) for each in found}


def test_all_images_are_embedded_again_and_the_rest_stays(address, photos, monkeypatch):
    fill(address, ImageList.of(photos))
    before, embedded, real = rows_in(address), [], engine.embed_rows

    def stopping(images, rows, *given, **more):
        if len(embedded) > 5:
            raise KeyboardInterrupt
        embedded.extend(images.paths)
        return real(images, rows, *given, **more)

    monkeypatch.setattr(engine, "ROWS", 3)
    monkeypatch.setattr(engine, "embed_rows", stopping)
    with pytest.raises(KeyboardInterrupt):
        upgrade_engine(address, exported_tolerant())
    assert rows_in(address) == before and len(embedded) == 6
    monkeypatch.setattr(engine, "embed_rows", real)
    # Meanwhile one that is done is deleted, and one is added.
    (photos / "new.png").write_bytes(picture(50))
    with open_store(address, model=model_hash(exported())) as store:
        (gone,) = store.find(paths=embedded[:1])
        store.delete([gone])
        load_images(store, ImageList([str(photos / "new.png")], [None]), loaded(model_hash(exported())))
    before = rows_in(address)
    monkeypatch.setattr(
        engine,
        "embed_rows",
        lambda images, *given, **more: (embedded.extend(images.paths), real(images, *given, **more))[1],
    )
    assert upgrade_engine(address, exported_tolerant()) == COUNT
    assert sorted(embedded) == sorted({*embedded}) and len(embedded) == COUNT + 1
    assert rows_in(address) == before and gone not in before
    with searcher_of(address, exported_tolerant()).store as store:
        # Which image was done first depends on the engine's ids, so the search is for another one than the deleted one.
        kept = embedded[1]
        assert Searcher(store, exported_tolerant()).search([Path(kept).read_bytes()], k=1)[0][0].path == kept
        assert store.add(None, np.eye(1, 16)).tolist() == [COUNT + 1]
    with open_store(address, model=model_hash(exported())) as store, pytest.raises(ValueError, match="another model"):
        store.count()
    assert upgrade_engine(address, exported_tolerant()) == 0


@pytest.mark.slow
def test_an_image_that_is_gone_stops_it(address, photos):
    fill(address, ImageList.of(photos))
    before = rows_in(address)
    (photos / "odd" / "05.png").unlink()
    with pytest.raises(
        ValueError, match=r"1 of 13 images cannot be read, for example .*05.png: .*The index has not changed"
    ):
        upgrade_engine(address, exported_tolerant())
    assert rows_in(address) == before


def test_another_dimension_and_what_changes_meanwhile(address):
    random = np.random.default_rng(0)
    old, new = random.normal(size=(ROWS, 8)), random.normal(size=(ROWS + 1, 4))
    with open_store(address, model=MODEL, kind="hnsw") as store:
        store.add(range(ROWS), old, table(range(ROWS)))
        store.build()
        # Of a model that was given up.
        store.successor(dataclasses.replace(store.description(), model="other", dimension=3)).take_vectors(
            [1], old[:1, :3], store
        )
        about = dataclasses.replace(store.description(), model=NEXT, dimension=4, metric="euclidean")
        beside = store.successor(about)
        assert beside.count() == 0
        beside.take_vectors(range(ROWS), new[:ROWS], store)
        again = store.successor(about)
        assert sorted(row for page in again.pages(6) for row in page) == [
            (row, f"/photos/{row}.jpg") for row in range(ROWS)
        ]
        store.delete([3])
        store.add([ROWS], old[:1], table([ROWS]))
        assert not again.take_place(store) and store.check().model == MODEL
        again.take_vectors([ROWS], new[ROWS:], store)
        again.build()
        assert again.take_place(store)
    with open_store(address, model=NEXT) as store:
        assert dataclasses.replace(store.description(), columns={}) == dataclasses.replace(about, columns={})
        assert store.description().columns["price"] == "number" and store.count() == ROWS
        found = store.search(new, 1, "price >= 0 and label is not null")
        for row in (1, 2, 5, 6, ROWS):
            assert found[row][0].id == row and found[row][0].similarity == pytest.approx(0, abs=1e-3)
        assert store.add(None, new[:1]).tolist() == [ROWS + 1]


def test_rights_and_indexes_of_a_table_stay():
    address = postgresql()
    name = address.rpartition("=")[2]
    with (
        open_store(address, model=MODEL, kind="hnsw") as store,
        psycopg.connect(server().get_uri(), autocommit=True) as connection,
    ):
        store.add(range(ROWS), np.eye(ROWS, 8), table(range(ROWS)))
        store.build()
        connection.execute(
            f"CREATE ROLE searcher; GRANT SELECT ON {name} TO searcher; GRANT SELECT ON {name} TO PUBLIC"
        )
        connection.execute(f"CREATE INDEX ON {name} (label)")
        beside = store.successor(dataclasses.replace(store.description(), model=NEXT))
        beside.take_vectors(range(ROWS), np.eye(ROWS, 8), store)
        beside.build()
        indexes = "SELECT indexname FROM pg_indexes WHERE tablename = %s AND indexname ~ '(embedding|label)' ORDER BY 1"
        before = connection.execute(indexes, [name]).fetchall()
        assert beside.take_place(store) and len(before) == 2
        assert connection.execute(indexes, [name]).fetchall() == before
        for role in ("searcher", "pg_monitor"):
            rights = "SELECT has_table_privilege(%s, %s, 'SELECT'), has_table_privilege(%s, %s, 'INSERT')"
            assert connection.execute(rights, [role, name, role, name]).fetchone() == (True, False)
        assert connection.execute("SELECT count(*) FROM tfdml_indexes WHERE name ~ %s", [name]).fetchone() == (1,)


def test_a_collection_without_an_alias_is_refused(tmp_path):
    from qdrant_client import QdrantClient, models

    with open_store(place("qdrant", tmp_path), model=MODEL) as store:
        store.add(None, np.eye(2, 8))
        about = store.description()
        folder = store.address.removeprefix("qdrant:")
    client = QdrantClient(path=folder)
    metadata = client.get_collection("images").config.metadata
    client.delete_collection("images~1")
    client.create_collection("images", models.VectorParams(size=8, distance=models.Distance.DOT), metadata=metadata)
    client.close()
    with open_store(f"qdrant:{folder}", model=MODEL) as store:
        assert store.add(None, np.eye(2, 8)).tolist() == [2, 3]
        with pytest.raises(ValueError, match="not an alias"):
            store.successor(dataclasses.replace(about, model=NEXT))

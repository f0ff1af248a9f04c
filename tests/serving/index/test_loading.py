"""Loads of images and embeddings into each store lose nothing and add nothing twice, wherever they stop."""

import contextlib
import os
import shlex
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psutil
import psycopg
import pytest

from tests.commands import assert_one_error, ok, run
from tests.night import others_at_night
from tests.serving.index.store_places import place, postgresql, server
from tests.serving.index.test_indexing import COUNT
from tests.serving_fixtures import exported, exported_tolerant, loaded, picture
from tfdml.files.shards import EmbeddingShards
from tfdml.serving.bulk_embedding import embed_images
from tfdml.serving.exported_model import model_hash
from tfdml.serving.image_list import ImageList
from tfdml.serving.index.attributes import attributes_of
from tfdml.serving.index.searcher import searcher_of
from tfdml.serving.index.stores import engine as engine_module
from tfdml.serving.index.stores import postgresql as postgresql_module
from tfdml.serving.index.stores.engine import load_images, load_shards
from tfdml.serving.index.stores.store import StoreError, open_store


@pytest.fixture(scope="module")
def embedded(photos, tmp_path_factory):
    out = tmp_path_factory.mktemp("embedded") / "shards"
    embed_images(out, ImageList.of(photos), model=exported(), shard_rows=5)
    return out


@pytest.fixture(params=["postgresql", "qdrant"])
def address(request, tmp_path):
    return place(request.param, tmp_path)


@pytest.fixture
def model():
    return loaded(model_hash(exported()))


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(engine_module, "ROWS", 3)


def opened(address):
    return open_store(address, model=model_hash(exported()))


def content(store):
    """Path to id, label and similarity to an image of all rows."""
    (found,) = store.search(np.eye(1, 16), 1000)
    assert len(found) == store.count()
    return {each.path: (each.id, each.label, round(each.similarity, 5)) for each in found}


@pytest.mark.slow
@pytest.mark.parametrize(
    "what, stop",
    others_at_night(
        [(what, stop) for what in ("images", "shards") for stop in (0, 1, 2, 4)], [("images", 2), ("shards", 1)]
    ),
)
def test_an_interrupted_load_goes_on(address, what, stop, photos, embedded, model, monkeypatch):
    def load(store):
        if what == "shards":
            return load_shards(store, embedded)
        return load_images(store, ImageList.of(photos), model)

    with opened(address) as store:
        real, writes = type(store)._write, []

        def stopping(self, *given):
            if len(writes) == stop:
                raise KeyboardInterrupt
            writes.append(len(given[0]))
            return real(self, *given)

        monkeypatch.setattr(type(store), "_write", stopping)
        with pytest.raises(KeyboardInterrupt):
            load(store)
        monkeypatch.undo()
        monkeypatch.setattr(engine_module, "ROWS", 3)
        assert store.count() == sum(writes)
        assert load(store) == {} == load(store)
        found = content(store)
        assert len(found) == COUNT == len({id for id, _, _ in found.values()})
        paths = [path for block in EmbeddingShards(embedded).blocks() for path in block.paths]
        vectors = EmbeddingShards(embedded).rows(np.arange(COUNT))
        for path, vector in zip(paths, vectors, strict=True):
            assert store.search(vector[None], 1)[0][0].path == path
            assert found[path][1] == ("odd" if int(path[-6:-4]) % 2 else "even")
        if what == "shards":
            assert [found[path][0] for path in paths] == list(range(COUNT))


def test_images_that_are_there_are_not_embedded_again_unless_they_are_updated(address, photos, model, monkeypatch):
    with opened(address) as store:
        load_images(store, ImageList.of(photos), model)
        before = content(store)
        with monkeypatch.context() as patch:
            patch.setattr(engine_module, "embed_rows", lambda *given, **more: pytest.fail("embedded"))
            load_images(store, ImageList.of(photos), model)
        assert content(store) == before
        prices = attributes_of({"price": list(range(COUNT))}, ImageList.of(photos).paths)
        load_images(store, ImageList.of(photos), model, prices, update=True)
        after = content(store)
        assert after.keys() == before.keys() and min(id for id, _, _ in after.values()) == COUNT
        assert store.count("price >= 10") == COUNT - 10


def test_unreadable_images_are_left_out(address, photos, model, tmp_path):
    (tmp_path / "broken.png").write_bytes(picture(1)[:60])
    images = ImageList([str(tmp_path / "broken.png"), *ImageList.of(photos).paths], [None] * (COUNT + 1))
    with opened(address) as store:
        bad = load_images(store, images, model)
        assert list(bad) == [str(tmp_path / "broken.png")] and store.count() == COUNT


def runs(process):
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def killed(own):
    """Kills a server with all its processes, as the loss of a machine does."""
    process = own.get_postmaster_info().process
    every = [process, *process.children(recursive=True)]
    for each in every:
        # Some end by themselves.
        with contextlib.suppress(ProcessLookupError):
            os.kill(each.pid, signal.SIGKILL)
    # A new server waits for none that has the old one's memory.
    while any(map(runs, every)):
        time.sleep(0.01)
    # The package and PostgreSQL would take a zombie for a server that runs.
    for left in (own.pgdata / "postmaster.pid", *own.pgdata.glob(".s.PGSQL.*.lock")):
        left.unlink()


@pytest.mark.slow
@pytest.mark.parametrize("end", [lambda own: own.stop(), killed], ids=["ends", "is killed"])
def test_a_server_that_ends_in_the_middle_loses_and_doubles_nothing(end, photos, model, monkeypatch):
    own = server("stopped")
    address, real, batches = postgresql(own), engine_module.embed_rows, []

    def stopping(*given, **more):
        batches.append(1)
        if len(batches) == 3:
            end(own)
        return real(*given, **more)

    with opened(address) as store:
        monkeypatch.setattr(engine_module, "embed_rows", stopping)
        with pytest.raises(
            StoreError, match="does not answer or cannot continue.*Repeat the command to continue"
        ) as caught:
            load_images(store, ImageList.of(photos), model)
        assert "\n" not in str(caught.value)
        with pytest.raises(StoreError):
            store.count()
        own.ensure_postgres_running()
        # The same store, and a new one.
        assert store.count() == 6
        assert load_images(store, ImageList.of(photos), model) == {} and len(content(store)) == COUNT


def test_a_full_disk_is_one_line_and_the_load_goes_on(photos, model):
    # A disk cannot be filled here: a trigger says what the server says then.
    full = """CREATE OR REPLACE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.id >= 6 THEN RAISE 'could not extend file: No space left on device' USING ERRCODE = '53100'; END IF;
        RETURN NEW; END $$"""
    address = postgresql()
    table = address.rpartition("=")[2]
    with opened(address) as store, psycopg.connect(server().get_uri(), autocommit=True) as connection:
        store.prepare(16, 0)
        connection.execute(full)
        connection.execute(
            f"CREATE TRIGGER full_disk BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION full_disk()"
        )
        with pytest.raises(StoreError, match="No space left on device. Repeat the command to continue.$") as caught:
            load_images(store, ImageList.of(photos), model)
        assert "\n" not in str(caught.value) and store.count() == 6
        connection.execute(f"DROP TRIGGER full_disk ON {table}")
        assert load_images(store, ImageList.of(photos), model) == {} and len(content(store)) == COUNT


def test_several_shards_at_once(embedded, monkeypatch):
    """From two commands, each with three workers, of which one stops."""
    address = postgresql()
    with opened(address) as store, opened(address) as other, ThreadPoolExecutor() as pool:
        real, writes = type(store)._write, []

        def stopping(self, *given):
            writes.append(given)
            if len(writes) == 2:
                raise KeyboardInterrupt
            return real(self, *given)

        monkeypatch.setattr(type(store), "_write", stopping)
        with pytest.raises(KeyboardInterrupt):
            load_shards(store, embedded, workers=3)
        assert 0 < store.count() < COUNT
        found = [pool.submit(load_shards, each, embedded, workers=3) for each in (store, other)]
        assert [each.result() for each in found] == [{}, {}]
        shards = EmbeddingShards(embedded)
        for block in shards.blocks():
            for id, path, vector in zip(block.ids.tolist(), block.paths, block.embeddings, strict=True):
                assert store.search(vector[None], 1)[0][0].id == id and store.find([id]) == {id: path}
        assert store.count() == COUNT and store.add(None, np.eye(1, 16)).tolist() == [COUNT]


def test_a_folder_of_qdrant_takes_one_worker(embedded, tmp_path):
    with opened(place("qdrant", tmp_path)) as store, pytest.raises(ValueError, match="supports only one worker"):
        load_shards(store, embedded, workers=2)


def test_a_connection_that_is_cut_in_the_middle_of_a_batch_leaves_nothing_of_it(photos, model, monkeypatch):
    with opened(postgresql()) as store:
        load_images(store, ImageList.of(photos / "odd"), model)
        before, real = content(store), psycopg.Copy.write_row

        def cut(self, row):
            real(self, row)
            with psycopg.connect(server().get_uri(), autocommit=True) as other:
                other.execute("SELECT pg_terminate_backend(%s)", [self.connection.info.backend_pid])

        monkeypatch.setattr(psycopg.Copy, "write_row", cut)
        with pytest.raises(StoreError):
            load_images(store, ImageList.of(photos / "even"), model)
        monkeypatch.undo()
        assert content(store) == before
        load_images(store, ImageList.of(photos / "even"), model)
        assert len(content(store)) == COUNT


def test_connections_are_used_again(photos, model, monkeypatch):
    opens, real = [], postgresql_module.Connections._new
    monkeypatch.setattr(postgresql_module.Connections, "_new", lambda self: (opens.append(1), real(self))[1])
    with opened(postgresql()) as store:
        load_images(store, ImageList.of(photos), model)
        content(store)
    assert len(opens) == 1


# The page on stores has commands with PostgreSQL.
@pytest.mark.nightly
@pytest.mark.parametrize("engine", ["qdrant", "postgresql"])
def test_the_commands(engine, photos, embedded, tmp_path):
    address, flags = place(engine, tmp_path), [f"--model={exported()}"]
    done = ok("tfdml.index", *flags, f"--images={photos / 'odd'}", f"--out={address}")
    indexed, following = done.stdout.splitlines()
    assert indexed == f"Indexed {COUNT // 2:,} images in {address}."
    # An engine has no copy of the model.
    python, dash, module, *words = shlex.split(following.removeprefix("Next: "))
    assert (python, dash, module) == ("python", "-m", "tfdml.search") and f"--model={exported()}" in words
    assert run(module, *words).stdout.splitlines()[1].split()[0] == "1.0000"
    done = run("tfdml.index", *flags, f"--images={photos}", f"--out={address}", "--add")
    assert f"Indexed {COUNT} images" in done.stdout, done.stderr
    query = photos / "odd" / "03.png"
    done = run("tfdml.search", *flags, f"--index={address}", "--k=2", "--where=id < 6", str(query))
    assert (
        "6 of 13 images match the filter. Each query is compared with all" in done.stdout
        and str(query) in done.stdout.split("\n")[2]
    )
    done = run("tfdml.index", f"--out={address}", f"--delete={query}")
    assert done.stdout == f"Deleted 1 images from {address}. It has {COUNT - 1} images now.\n", done.stderr
    for command, words in (
        (
            ["tfdml.index", f"--out={address}", f"--delete={query},{photos / 'even' / '02.png'}"],
            ["is not in the index", "nothing was deleted"],
        ),
        (["tfdml.search", f"--index={address}", str(query)], ["--model is missing"]),
        (["tfdml.search", f"--index={address}", f"--model={exported_tolerant()}", str(query)], ["with another model"]),
        (["tfdml.search", *flags, f"--index={address}", "--duplicates"], ["Duplicates can only be found"]),
        (
            ["tfdml.index", *flags, f"--out={address}", f"--images={photos}", "--workers=2"],
            ["--workers has no effect here"],
        ),
    ):
        assert_one_error(run(*command), *words)
    # As after a kill at the end.
    for command, words in (
        (
            [f"--delete={query}"],
            f"{query} is not in {address}, so there is nothing to delete. It has {COUNT - 1} images.",
        ),
        ([*flags, "--upgrade"], f"{address} already uses the model {exported()}. There is nothing to do."),
    ):
        done = run("tfdml.index", f"--out={address}", *command)
        assert done.returncode == 0 and words in done.stdout, done.stderr
    other = place(engine, tmp_path)
    done = run("tfdml.index", *flags, f"--embeddings={embedded}", f"--out={other}", "--kind=hnsw")
    assert done.stdout.startswith(f"Indexed {COUNT} images in {other}.\nNext: "), done.stderr


@pytest.mark.nightly
def test_no_command_tells_a_password(photos):
    model = f"--model={exported()}"
    images = f"--images={photos}"
    for flags in ([images], [images, model], ["--delete=a.jpg"], ["--compact"], ["--upgrade", model]):
        done = run("tfdml.index", "--out=postgresql://me:secret@host/db", *flags)
        assert_one_error(done)
        assert "secret" not in done.stdout + done.stderr


@pytest.mark.slow
def test_a_searcher_of_images(address, photos, model, monkeypatch):
    with opened(address) as store:
        load_images(store, ImageList.of(photos), model)
    searcher = searcher_of(address, exported())
    found = searcher.search([photos / "odd" / "03.png"], k=2, where="label = 'odd'")
    assert found[0][0].path == str(photos / "odd" / "03.png") and found.matching == 6
    assert searcher.has_labels() and len(searcher) == COUNT and searcher.reopened() is searcher
    id = found[0][0].id
    assert searcher.file_of(id) == str(photos / "odd" / "03.png") and searcher.file_of(999) is None
    searcher.store.close()

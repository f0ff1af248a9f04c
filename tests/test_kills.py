"""Commands that write shards, or rows into a store, go on where they were when they are killed and repeated."""

import contextlib
import json
import signal
import sqlite3
from pathlib import Path

import numpy as np
import psycopg
import pytest

from pipelines.datasets import load
from tests.commands import DIES_AT, Forked, ok, run
from tests.run_helpers import straight_run
from tests.serving.index.store_places import place, server
from tests.serving_fixtures import exported, picture
from tfdml.files.shards import EmbeddingShards
from tfdml.serving.exported_model import model_hash
from tfdml.serving.index.stores.store import is_engine, open_store

pytestmark = pytest.mark.slow

# Shards of one image.
COUNT = 80


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    for number in range(COUNT):
        path = folder / "test" / f"class{number % 2}" / f"{number:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number % 2))
    return folder


def kill_and_repeat(module, flags, out, written):
    """Kills a command that has written shards, and repeats it; returns what it prints. Those that `written()` stay."""
    killed = Forked(module, *flags, environment={DIES_AT: "pathlib:Path rename 20"}).wait()
    assert killed.returncode == -signal.SIGKILL and not (out / "manifest.json").exists()
    before = {path: path.stat().st_mtime_ns for path in written()}
    assert 3 < len(before) < COUNT
    done = ok(module, *flags)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert not list(out.glob(".writing-*"))
    return done.stdout


def test_embedding_goes_on(photos, tmp_path):
    out = tmp_path / "embedded"
    flags = [f"--model={exported()}", f"--images={photos}", f"--out={out}", "--shard_rows=1"]
    printed = kill_and_repeat(
        "tfdml.embed", flags, out, lambda: [note.with_suffix(".parquet") for note in out.glob("shard-*.json")]
    )
    assert f"Embedded {COUNT} images" in printed
    shards = EmbeddingShards(out)
    assert [path for block in shards.blocks() for path in block.paths] == sorted(map(str, photos.rglob("*.png")))
    assert len({block.embeddings.tobytes() for block in shards.blocks()}) == 2


@pytest.mark.nightly
def test_packing_goes_on(photos, tmp_path):
    out = tmp_path / "packed"
    flags = ["--dataset=folder", f"--data_dir={photos}", f"--out={out}", "--shard_images=1"]

    def written():
        plan = json.loads((out / "plan.json").read_text()) if (out / "plan.json").exists() else {"shards": {}}
        return [out / f"{name}.tar" for name in plan["shards"]]

    assert f"Packed {COUNT} images" in kill_and_repeat("pipelines.pack", flags, out, written)
    test = load("packed", data_dir=str(out), test_only=True).test
    assert test.images.tolist() == [picture(label) for label in test.labels.tolist()]


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    """Embeddings in shards of one row, each of which is loaded as a batch of its own."""
    folder, random = tmp_path_factory.mktemp("loaded") / "embedded", np.random.default_rng(0)
    shards = EmbeddingShards.create(folder, model=model_hash(exported()), dimension=16)
    for row in range(3 * COUNT):
        shards.append([f"/photos/{row:03d}.jpg"], [f"class{row % 2}"], random.normal(size=(1, 16)))
    return shards


@pytest.mark.nightly
def test_an_export_is_made_again_of_another_model(tmp_path):
    out = tmp_path / "exported"
    flags = [f"--run_dir={straight_run()}", f"--out={out}"]
    killed = Forked("tfdml.export", *flags, environment={DIES_AT: "pathlib:Path rename 1"}).wait()
    assert killed.returncode == -signal.SIGKILL and not out.exists() and (tmp_path / ".writing-exported").is_dir()
    ok("tfdml.export", *flags, "--which=final")
    assert [entry.name for entry in tmp_path.iterdir()] == ["exported"]
    card = json.loads((out / "metadata.json").read_text())
    assert card["model"] == "final" and card["sha256"] == model_hash(out)


def rows_written(address):
    """Returns the writes of a load so far: of an engine its rows, each with a value that a rewrite changes."""
    if not is_engine(address):
        return set(Path(address).glob("embeddings/shard-*.parquet"))
    with contextlib.suppress(psycopg.errors.UndefinedTable, sqlite3.OperationalError):
        if address.startswith("postgresql"):
            with psycopg.connect(server().get_uri()) as connection:
                table = address.rpartition("=")[2]
                return set(connection.execute(f"SELECT id, ctid::text, xmin::text FROM {table}").fetchall())
        points = next(Path(address.removeprefix("qdrant:")).glob("collection/*/storage.sqlite"), "none")
        with contextlib.closing(sqlite3.connect(f"file:{points}?mode=ro", uri=True)) as connection:
            return set(connection.execute("SELECT id, rowid FROM points").fetchall())
    return set()


@pytest.mark.parametrize("store", ["folder", "postgresql", pytest.param("qdrant", marks=pytest.mark.nightly)])
def test_a_load_loses_and_doubles_nothing(store, embedded, tmp_path):
    address, vectors = place(store, tmp_path), embedded.rows(np.arange(3 * COUNT))
    flags = [f"--model={exported()}", f"--embeddings={embedded.folder}", f"--out={address}"]
    if is_engine(address):
        killed = Forked("tfdml.index", *flags).until(lambda: len(rows_written(address)) > 3).kill()
    else:
        killed = Forked("tfdml.index", *flags, environment={DIES_AT: "shutil copyfile 20"}).wait()
    assert killed.returncode == -signal.SIGKILL
    before = rows_written(address)
    assert 3 < len(before) < 3 * COUNT
    done = run("tfdml.index", *flags)
    assert done.returncode == 0 and f"Indexed {3 * COUNT} images in {address}.\n" in done.stdout, done.stderr
    # Rows that were there have not been written again.
    assert not is_engine(address) or before < rows_written(address)
    with open_store(address) as opened:
        assert opened.count() == 3 * COUNT
        found = [each.id for (each,) in opened.search(vectors, 1)]
        paths = opened.find(range(3 * COUNT))
    assert found == list(range(3 * COUNT)) and paths == {row: f"/photos/{row:03d}.jpg" for row in found}

"""Commands that write shards go on where they were when they are killed and repeated."""

import json
import signal

import pytest

from pipelines.datasets import load
from tests.commands import Forked, run
from tests.serving_fixtures import exported, picture
from tfdml.files.embedding_shards import EmbeddingShards

pytestmark = pytest.mark.slow

# So many that the commands write shards of one image for seconds.
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
    """Kills a command that has written shards, and repeats it; returns what it prints. Whole shards stay.

    Args:
        written: function that returns the files of shards that are whole.
    """
    killed = Forked(module, *flags).until(lambda: len(written()) > 3).kill()
    assert killed.returncode == -signal.SIGKILL and not (out / "manifest.json").exists()
    before = {path: path.stat().st_mtime_ns for path in written()}
    assert 3 < len(before) < COUNT
    done = run(module, *flags)
    assert done.returncode == 0, done.stderr
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


def test_packing_goes_on(photos, tmp_path):
    out = tmp_path / "packed"
    flags = ["--dataset=folder", f"--data_dir={photos}", f"--out={out}", "--shard_images=1"]

    def written():
        plan = json.loads((out / "plan.json").read_text()) if (out / "plan.json").exists() else {"shards": {}}
        return [out / f"{name}.tar" for name in plan["shards"]]

    assert f"Packed {COUNT} images" in kill_and_repeat("pipelines.pack", flags, out, written)
    test = load("packed", data_dir=str(out), test_only=True).test
    assert test.images.tolist() == [picture(label) for label in test.labels.tolist()]

"""Files that were damaged or made by hand, thousands of them: what is read of them, or one line that names them."""

import io
import json
import shutil
import signal
import zipfile

import keras
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from pipelines.datasets import load, packing
from pipelines.datasets.csv import csv
from pipelines.datasets.dataset import Dataset, Split
from tests.run.checkpoints import content
from tests.run.parsed_flags import parsed
from tfdml.checked_files import fingerprint
from tfdml.embedding_shards import EmbeddingShards
from tfdml.evaluation.embedding_files import EmbeddingFiles
from tfdml.faiss_library import load_faiss
from tfdml.model_archive import damage_of, load_archive
from tfdml.run.checkpoint_folder import CheckpointFolder
from tfdml.run.run_directory import RunDirectory
from tfdml.run.run_log import RunLog
from tfdml.serving.image_tables import read_image_table
from tfdml.serving.index_folder import IndexFolder

# Seconds after which a reader hangs.
PATIENCE = 10
ODD = [
    None,
    True,
    -1,
    0,
    2**70,
    1e308,
    float("nan"),
    "",
    "x",
    "../../etc/passwd",
    "/dev/zero",
    "\0",
    [],
    {},
    [[]],
    {"a": 1},
]
DEEP = b"[" * 100_000


def write_arrays(folder):
    columns = {"labels": np.array(["a", "b"]), "cameras": np.arange(2), "is_query": np.array([True, False])}
    np.savez_compressed(folder / "x.npz", embeddings=np.ones((2, 3), np.float32), **columns)


def write_parquet(folder):
    columns = {"embeddings": [[1.0, 2.0]] * 20, "labels": ["a", "b"] * 10, "cameras": list(range(20))}
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "x.parquet")


def write_images(folder):
    table = pyarrow.table({"path": [f"{row}.jpg" for row in range(20)], "label": ["a", None] * 10})
    pyarrow.parquet.write_table(table, folder / "images.parquet")


def write_csv(folder):
    rows = [f"{row}.jpg,class {row % 3},{'test' if row % 3 else 'train'}" for row in range(9)]
    (folder / "images.csv").write_text("\n".join(["path,label,split", *rows]))


def write_shards(folder):
    shards = EmbeddingShards.create(folder, model="model", dimension=3)
    shards.append(["/a", "/b"], ["x", "y"], np.ones((2, 3)), {"/c": "why"})


def write_packed(folder):
    images, labels = np.array([b"image"] * 6, object), np.array([0, 0, 1, 1, 2, 2])
    both = Split(images, labels, {0: "a", 1: "b", 2: "c"}, boxes=np.ones((6, 4), np.int32))
    packing.pack(Dataset("birds", both.where(labels < 2), both.where(labels == 2)), folder, images=4)


def write_checkpoint(folder):
    CheckpointFolder(folder).write(3, *content(3))


def write_run(folder):
    run = RunDirectory(folder)
    run.claim(parsed("--epochs=3")[1])
    run._held.close()
    run.record_dataset({"images": {"test": 7}, "classes": {"train": ["a"], "test": ["b"]}})
    log = RunLog(folder)
    for step in range(3):
        log.write("evaluation", step, {"recall_at_1": 0.5})
    run.write_result({"step": 2, "best": {"step": 1}, "seconds": 3.0})
    # As a run of an earlier version, whose files are read as they are.
    (folder / "checksums.json").unlink()


def write_model(folder):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.save(folder / "x.keras")


def write_index(folder):
    index = load_faiss().IndexFlatIP(3)
    index.add(np.ones((2, 3), np.float32))
    about = {"model": "model", "dimension": 3, "metric": "cosine", "spec": "flat", "kind": "flat", "count": 2}
    IndexFolder(folder).write(index, ([0, 1], ["/a", "/b"], ["x", None]), {**about, "trained_on": 2})
    IndexFolder(folder).begin_deletion({"/a"})


def read_index(folder):
    index = IndexFolder(folder)
    manifest = index.manifest()
    return index.read_index(manifest), index.read_images(manifest), index.begun_deletion()


def read_csv(folder):
    dataset = csv(str(folder / "images.csv"))
    return dataset.train, dataset.test


def read_shards(folder):
    shards = EmbeddingShards(folder)
    return [block.paths for block in shards.blocks()], len(shards), EmbeddingFiles.read(str(folder))


def read_checkpoint(folder):
    return CheckpointFolder(folder).read_newest(lambda message: None)


def read_run(folder):
    run = RunDirectory(folder)
    return run.settings(), run.recorded_dataset(), run.events(), run.result() and run.complete_result()


def read_model(folder):
    damage = damage_of(folder / "x.keras")
    if damage:
        raise ValueError(f"{folder / 'x.keras'} is damaged: {damage}")
    return load_archive(folder / "x.keras")


FILES = {
    "npz": (write_arrays, lambda folder: EmbeddingFiles.read(str(folder / "x.npz"))),
    "parquet": (write_parquet, lambda folder: EmbeddingFiles.read(str(folder / "x.parquet"))),
    "images": (write_images, lambda folder: read_image_table(folder / "images.parquet")),
    "csv": (write_csv, read_csv),
    "shards": (write_shards, read_shards),
    "index": (write_index, read_index),
    "packed": (write_packed, lambda folder: load("packed", data_dir=str(folder))),
    "checkpoint": (write_checkpoint, read_checkpoint),
    "run": (write_run, read_run),
    "model": (write_model, read_model),
}


def changed_bytes(whole, random):
    """Flipped bits, a part that is gone, or a part that is there twice."""
    changed, kind = bytearray(whole), random.integers(4)
    first, last = sorted(random.integers(0, len(whole) + 1, 2))
    if kind == 0:
        return bytes(changed[:first])
    if kind == 1:
        return bytes(changed[:first] + changed[last:])
    if kind == 2:
        return bytes(changed[:last] + changed[first:])
    for place in random.integers(0, max(len(whole), 1), 3)[: len(whole)]:
        changed[place] = random.integers(256)
    return bytes(changed)


def changed_json(whole, random):
    """A value anywhere in it is another one, or gone."""
    found = json.loads(whole)
    if random.integers(20) == 0:
        return DEEP
    inside = [found]
    for each in inside:
        inside += [
            value for value in (each.values() if isinstance(each, dict) else each) if isinstance(value, dict | list)
        ]
    chosen = [each for each in inside if each]
    if not chosen:
        return b"[]"
    each = chosen[random.integers(len(chosen))]
    key = list(each if isinstance(each, dict) else range(len(each)))[random.integers(len(each))]
    if random.integers(4) == 0:
        del each[key]
    else:
        each[key] = ODD[random.integers(len(ODD))]
    return json.dumps(found).encode()


def changed_zip(whole, random):
    """A member is changed, with a checksum that fits."""
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as archive, zipfile.ZipFile(written, "w") as copy:
        members = {name: archive.read(name) for name in archive.namelist()}
        chosen = list(members)[random.integers(len(members))]
        for name, member in members.items():
            change = changed_json if name.endswith(".json") and random.integers(2) else changed_bytes
            copy.writestr(name, change(member, random) if name == chosen else member)
    return written.getvalue()


def change(path, random):
    whole, changes = path.read_bytes(), [changed_bytes]
    changes += [changed_json] * 3 if path.suffix == ".json" else []
    changes += [changed_zip] * 3 if path.suffix in (".npz", ".keras") else []
    path.write_bytes(changes[random.integers(len(changes))](whole, random))


def make_checksums_fit(folder):
    """Who makes a file by hand can make its checksum, too."""
    for manifest in folder.rglob("manifest.json"):
        try:
            found = json.loads(manifest.read_text(errors="replace"))
        except (ValueError, RecursionError):
            continue
        fit(manifest.parent, "", found)
        manifest.write_text(json.dumps(found))


def fit(folder, name, entry):
    """Gives the entry of a file, and those in it, the checksums that the files have."""
    if not isinstance(entry, dict):
        return
    named = [folder / f"{name}{ending}" for ending in ("", ".tar", ".parquet")] if name.isprintable() else []
    file = next((path for path in named if path.is_file()), None)
    if "sha256" in entry and file:
        entry |= fingerprint(file)
    for key, value in entry.items():
        fit(folder, f"{name}.parquet" if key == "table" else key, value)


def hangs(*_):
    raise RuntimeError(f"It takes more than {PATIENCE} seconds.")


def check(kind, folder, seeds):
    write, read = FILES[kind]
    (folder / "whole").mkdir()
    write(folder / "whole")
    read(folder / "whole")
    previous = signal.signal(signal.SIGALRM, hangs)
    try:
        for seed in seeds:
            random, copy = np.random.default_rng(seed), shutil.copytree(folder / "whole", folder / "copy")
            files = sorted(
                path
                for path in copy.rglob("*")
                if path.is_file() and path.name != ".lock" and "tensorboard" not in path.parts
            )
            change(files[random.integers(len(files))], random)
            if random.integers(2):
                make_checksums_fit(copy)
            signal.alarm(PATIENCE)
            try:
                read(copy)
            except (ValueError, OSError) as error:
                told = f"{type(error).__name__}: {error}"
                assert type(error) is not UnicodeDecodeError and "codec can't" not in told, (seed, told)
                assert str(copy) in told, (seed, told)
            except Exception as error:
                raise AssertionError(f"seed {seed} of {kind}: {type(error).__name__}: {error}") from error
            finally:
                signal.alarm(0)
            shutil.rmtree(copy)
    finally:
        signal.signal(signal.SIGALRM, previous)


@pytest.mark.parametrize("kind", FILES)
def test_a_few_damaged_files_are_read_or_told(tmp_path, kind):
    check(kind, tmp_path, range(20))


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("kind", FILES)
def test_many_damaged_files_are_read_or_told(tmp_path, kind):
    check(kind, tmp_path, range(20, 250))

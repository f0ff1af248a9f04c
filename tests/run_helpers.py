"""Runs on data small enough for a CPU, by the command lines, and what they leave."""

import fcntl
import functools
import io
import json
import os
import re
import zipfile
from pathlib import Path

from tests.commands import Forked, ok, run

STEPS_PER_EPOCH, EPOCHS = 20, 2

MODEL_FLAGS = [
    "--image_size=24",
    "--backbone=small(width=8, stages=2)",
    "--head=linear(dropout=0.3)",
    "--embedding_size=16",
    "--sampler=pxk(classes=4, per_class=4)",
    "--train_transform=random_resized_crop(area=(0.5, 1.0))|flip",
    "--noprojector",
]
LENGTH_FLAGS = [f"--epochs={EPOCHS}", f"--steps_per_epoch={STEPS_PER_EPOCH}", "--optimizer=adam(learning_rate=0.003)"]

# Measured at every evaluation, and at the end.
RETRIEVAL = ("recall_at_1", "recall_at_2", "recall_at_4", "recall_at_8", "r_precision", "map_at_r", "queries")
METRICS = (*RETRIEVAL[:-1], "nmi", "f1", "queries")

# Nearly all that a step can have; the backbone waits for 24 of 40 steps.
EVERYTHING = [
    "--loss=ranked_list(negative_temperature=20.0, final_negative_temperature=0.0)",
    "--memory=xbm(size=80, start=3)",
    "--optimizer=adamw(learning_rate=0.01, weight_decay=0.01)",
    "--schedule=cosine(warmup_epochs=0.5, floor=0.1)",
    "--lr_multipliers=backbone=0.5,embedding=2",
    "--warmup_epochs=1.2",
    "--nodecay_biases_and_norms",
    "--clip_norm=0.5",
    "--ema=0.9",
]

# The environment's variable with the folder that all processes of the tests share.
SHARED_FOLDER = "TFDML_TESTS_FOLDER"


def parsed(*arguments):
    """`(settings, serialized)` of flags of training."""
    from tfdml.console import flags

    return flags.parse("\n".join(arguments))


def train_flags(run_dir, *more):
    """Flags of a run of two epochs with augmentation, dropout and batch norm; later ones override."""
    data = ["--dataset=toycars(classes=16, images_per_class=8, image_size=24)", f"--data_dir={pictures()}"]
    return [*data, *MODEL_FLAGS, *LENGTH_FLAGS, f"--run_dir={run_dir}", *more]


def straight_flags(run_dir, *more):
    """Flags of `straight_run`, in another folder; later ones override."""
    return train_flags(run_dir, *EVERYTHING, *more)


def made_once(name, make):
    """Returns a path that all processes share, made by `make(path)`: the first process makes it, others wait."""
    path = Path(os.environ[SHARED_FOLDER]) / name
    complete = path.with_suffix(".complete")
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            make(path)
            complete.touch()
    return path


def shared(name):
    """Decorator for a function that makes a path: returns a function without arguments that returns it; see above."""
    return lambda make: functools.cache(lambda: made_once(name, make))


@functools.cache
def pictures():
    """Folder with the pictures rendered, so that no command tells of rendering."""
    from pipelines.datasets.toycars import toycars

    return made_once("pictures", lambda path: toycars(data_dir=path, classes=16, images_per_class=8, image_size=24))


@shared("straight")
def straight_run(run_dir):
    """Run directory of two epochs without a stop, with nearly all that a run can have."""
    assert "Warning" not in ok("tfdml.train", *straight_flags(run_dir)).stderr


def change_flags(run_dir, old, new):
    """Replaces a text in the flags of a run, which are then without a checksum."""
    flags = (run_dir / "flags.txt").read_text()
    assert old in flags
    (run_dir / "flags.txt").write_text(flags.replace(old, new))
    (run_dir / "checksums.json").unlink(missing_ok=True)


def train(run_dir, *more):
    """Trains to the end, in a fork."""
    return run("tfdml.train", *train_flags(run_dir, *more))


def trained(run_dir, *more):
    """Trains to the end, in a fork, which must end well."""
    return ok("tfdml.train", *train_flags(run_dir, *more))


def steps(run_dir):
    """Steps of the checkpoints that are there, oldest first."""
    return sorted(int(entry.name.removeprefix("step-")) for entry in (Path(run_dir) / "checkpoints").glob("step-*"))


def events(run_dir):
    """Events of metrics.jsonl without wall times; a line that is still being written is left out."""
    path = Path(run_dir) / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    found = [json.loads(line) for line in lines if line.endswith("\n")]
    return [{name: value for name, value in event.items() if name != "seconds"} for event in found]


def result(run_dir):
    """result.json without wall times."""
    found = json.loads((Path(run_dir) / "result.json").read_text())
    found.get("distillation", {}).pop("images_per_second", None)
    return {name: value for name, value in found.items() if name != "seconds"}


def saved_model(path):
    """The content of a `.keras` file but for its date: configuration, and bytes and type of every weight."""
    import h5py

    with zipfile.ZipFile(path) as archive:
        content = {"config": json.loads(archive.read("config.json"))}
        file = h5py.File(io.BytesIO(archive.read("model.weights.h5")))

    def visit(name, item):
        if isinstance(item, h5py.Dataset):
            content[name] = (item.shape, str(item.dtype), item[()].tobytes())

    file.visititems(visit)
    return content


def load_newest(run_dir):
    """The arrays file of the newest checkpoint."""
    import numpy as np

    return np.load(Path(run_dir) / "checkpoints" / f"step-{steps(run_dir)[-1]:08d}" / "arrays.npz")


def variable_names(run_dir):
    """Names of the variables in the newest checkpoint."""
    with load_newest(run_dir) as stored:
        return [str(name) for name in stored["names"]]


def newest_arrays(run_dir):
    """Bytes of every variable in the newest checkpoint: weights, optimizer, seeds."""
    with load_newest(run_dir) as stored:
        return {name: (stored[name].shape, str(stored[name].dtype), stored[name].tobytes()) for name in stored}


def assert_went_on(run_dir, done):
    """The command went on from a checkpoint; one that starts anew leaves the same bits."""
    found = re.search(rf"Resuming {re.escape(str(run_dir))} after step (\d+)\.", done.stdout)
    assert found and int(found[1]) > 0, done.stdout


def assert_goes_on(run_dir, flags, expected, step):
    """A run that is killed once this step is saved goes on, and leaves the same bits as one that was not stopped."""
    Forked("tfdml.train", *flags).until(lambda: max(steps(run_dir), default=0) >= step).kill()
    assert_went_on(run_dir, ok("tfdml.train", *flags))
    assert_same_run(run_dir, expected)


def assert_same_run(run_dir, expected):
    """All that two runs leave is equal bit for bit, wall times aside."""
    same(dict(enumerate(events(run_dir))), dict(enumerate(events(expected))))
    same(result(run_dir), result(expected))
    assert steps(run_dir)[-1] == steps(expected)[-1]
    same(newest_arrays(run_dir), newest_arrays(expected))
    for name in ("model.keras", "final.keras"):
        same(saved_model(run_dir / name), saved_model(expected / name))


def same(found, expected):
    """Two dictionaries are equal and not empty; if not, says where they differ."""
    assert expected
    different = [key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key)]
    shown = {key: (str(found.get(key))[:300], str(expected.get(key))[:300]) for key in sorted(different, key=str)[:3]}
    assert not different, shown

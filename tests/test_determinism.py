"""Two runs of the quickstart's size end with the same bits.

At this size, unlike that of the other tests, operations take long enough to finish in another order each time.
"""

import json

import numpy as np
import pytest

from tests.commands import Forked

pytestmark = pytest.mark.slow

FLAGS = [
    "--dataset=toycars(classes=64, images_per_class=4)",
    "--loss=triplet(mining='semi_hard', squared=False)",
    # One step each, whose loss is in metrics.jsonl: it tells when two runs part.
    "--epochs=6",
    "--steps_per_epoch=1",
    "--eval_every=6",
    "--noprojector",
]


def run_of(tmp_path, name):
    """Trains, and returns the loss of each step and the arrays of the final checkpoint."""
    places = [f"--run_dir={tmp_path / name}", f"--data_dir={tmp_path / 'data'}"]
    # On all cores, as a user has it.
    done = Forked("tfdml.train", *FLAGS, *places, environment={"TF_NUM_INTRAOP_THREADS": "0"}).wait()
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / name / "metrics.jsonl").read_text().splitlines()
    losses = [metrics["loss"] for metrics in map(json.loads, lines) if "loss" in metrics]
    with np.load(tmp_path / name / "checkpoints" / "step-00000006" / "arrays.npz") as arrays:
        return losses, {array: arrays[array] for array in arrays.files}


@pytest.mark.nightly
def test_two_runs_are_equal(tmp_path):
    (first_losses, first), (second_losses, second) = run_of(tmp_path, "first"), run_of(tmp_path, "second")
    assert len(first_losses) == 6
    assert first_losses == second_losses
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)

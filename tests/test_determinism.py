"""Two runs of the quickstart's size end with the same bits.

At this size, unlike that of the other tests, operations take long enough to finish in another order each time.
"""

import numpy as np
import pytest

from tests.commands import Forked

pytestmark = pytest.mark.slow

FLAGS = [
    "--dataset=toycars(classes=64, images_per_class=4)",
    "--loss=triplet(mining='semi_hard', squared=False)",
    "--epochs=1",
    "--steps_per_epoch=6",
    "--noprojector",
]


def final_arrays(tmp_path, name):
    places = [f"--run_dir={tmp_path / name}", f"--data_dir={tmp_path / 'data'}"]
    # On all cores, as a user has it.
    done = Forked("tfdml.train", *FLAGS, *places, environment={"TF_NUM_INTRAOP_THREADS": "0"}).wait()
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / name / "checkpoints" / "step-00000006" / "arrays.npz") as arrays:
        return {array: arrays[array] for array in arrays.files}


def test_two_runs_are_equal(tmp_path):
    first, second = final_arrays(tmp_path, "first"), final_arrays(tmp_path, "second")
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)

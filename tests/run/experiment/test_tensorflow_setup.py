"""What is set of TensorFlow when a run starts, in processes of their own, since it can be set once."""

import json

import pytest

from tests.commands import Forked

PROGRAM = "tests.programs.start_tensorflow"


@pytest.mark.parametrize(
    "gpus, devices, threads, expected",
    [
        # Operations of a model on the processor use all cores (0), those on images beside a GPU one each.
        (0, "auto", "", 0),
        (1, "auto", "", 1),
        (1, "cpu:1", "", 0),
        # Who sets the environment decides.
        (1, "auto", "3", 0),
    ],
)
def test_operations_on_images_use_one_core_each_beside_a_gpu(gpus, devices, threads, expected):
    # Set for all tests, see conftest.py.
    environment = {"TF_NUM_INTRAOP_THREADS": threads}
    done = Forked(PROGRAM, str(gpus), devices, "True", environment=environment).wait()
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == {
        "threads_in_operations": expected,
        "operations_at_once": 1,
        "improves_graphs": True,
        "rounds": False,
    }


def test_operations_run_at_once_where_bits_may_differ():
    done = Forked(PROGRAM, "0", "auto", "False").wait()
    assert json.loads(done.stdout)["operations_at_once"] == 0, done.stderr

"""The devices of this folder's tests: GPUs or, with TFDML_GPU_TESTS_ON=CPU, to try the tests themselves, CPUs.

`make test-gpu` runs them, and no other target does.
"""

import os

import pytest
import tensorflow as tf

# A process would otherwise take all memory of a GPU, and some tests start others. Read when TensorFlow first computes.
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")


@pytest.fixture(scope="session", autouse=True)
def kind():
    """The kind of the devices, `GPU` or `CPU`; where there are none, the tests are skipped."""
    kind = os.environ.get("TFDML_GPU_TESTS_ON", "GPU")
    if not tf.config.list_physical_devices(kind):
        pytest.skip(f"TensorFlow sees no {kind}.")
    # As in the commands.
    tf.config.experimental.enable_tensor_float_32_execution(False)
    return kind


@pytest.fixture(scope="session")
def count(kind):
    """The number of devices, at most 4; on a CPU there are virtual ones."""
    return 2 if kind == "CPU" else min(4, len(tf.config.list_physical_devices(kind)))

"""Content of checkpoints for the tests of their folder."""

import numpy as np
import pytest

FILES = ("arrays.npz", "state.json", "manifest.json")


def content(step):
    """Arrays and state of a step: every kind that a run has, and floats that only equality of bits tells apart."""
    random = np.random.default_rng(step)
    odd = np.array([0x7FC00001, 0x80000000, 0x00000001, 0x7F800000], np.uint32).view(np.float32)
    arrays = [
        ("00000|head/kernel", random.normal(size=(4, 3)).astype("float32")),
        ("00001|iterations", np.int64(step)),
        ("00002|seed", np.array([step, 2**32 - 1], np.uint32)),
        ("00003|odd", odd),
        ("00004|empty", np.zeros((0, 3), "float32")),
    ]
    return arrays, {"log": {"events": step}, "best": None, "recall": 0.1 + step}


def assert_is(read, step):
    found_step, arrays, state = read
    expected, expected_state = content(step)
    assert (found_step, state) == (step, expected_state)
    assert [name for name, _ in arrays] == [name for name, _ in expected]
    for (name, found), (_, wanted) in zip(arrays, expected, strict=True):
        assert (found.shape, found.dtype, found.tobytes()) == (np.shape(wanted), wanted.dtype, wanted.tobytes()), name


def never(message):
    pytest.fail(f"warned: {message}")

"""Caffe's weights, from files that the test writes."""

import numpy as np
import pytest

from tests.backbones.weights.published_files import blob, caffemodel, counted
from tfdml.backbones.published_weights import read_caffemodel

RANDOM = np.random.default_rng(0)
TENSORS = {
    "conv1/7x7_s2": [RANDOM.normal(size=(4, 3, 2, 2)), RANDOM.normal(size=4)],
    "conv2/3x3": [RANDOM.normal(size=(300, 4, 1, 1)), RANDOM.normal(size=300)],
    "pool": [],
}


@pytest.mark.parametrize("old", [False, True])
def test_names_shapes_and_numbers(old, tmp_path):
    (tmp_path / "a.caffemodel").write_bytes(caffemodel(TENSORS, old))
    read = read_caffemodel(tmp_path / "a.caffemodel")
    expected = {
        f"{name}.{role}": array
        for name, arrays in TENSORS.items()
        for role, array in zip(("weight", "bias"), arrays, strict=False)
    }
    assert read.keys() == expected.keys()
    for name, array in expected.items():
        assert read[name].shape == array.shape, name
        np.testing.assert_array_equal(read[name], array.astype(np.float32))


def test_shapes_whose_numbers_are_not_packed(tmp_path):
    """Both are the same message to a protocol buffer."""
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    shape = counted(7, bytes([1 << 3, 2, 1 << 3, 3]))
    content = shape + counted(5, array.tobytes())
    assert content != blob(array, old=False)
    (tmp_path / "a.caffemodel").write_bytes(counted(100, counted(1, b"fc") + counted(7, content)))
    np.testing.assert_array_equal(read_caffemodel(tmp_path / "a.caffemodel")["fc.weight"], array)


WHOLE = caffemodel(TENSORS)
DAMAGED = {"empty": b"", "text": b"this is text, not a network", "cut": WHOLE[:-5], "only_a_name": counted(1, b"net")}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_damaged_files_are_named(content, tmp_path):
    (tmp_path / "bad.caffemodel").write_bytes(content)
    with pytest.raises(ValueError, match="bad.caffemodel.*not a caffemodel"):
        read_caffemodel(tmp_path / "bad.caffemodel")

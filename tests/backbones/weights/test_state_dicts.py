"""State dicts in safetensors files; those of torch.save are tested beside torch, in tests/oracles."""

import struct
import sys

import numpy as np
import pytest

from tests.backbones.weights.published_files import safetensors
from tfdml.backbones.published_weights import read_state_dict

VALUES = np.array([[1.5, -2.0, 0.25], [3.0, 0.0, -0.5]])


@pytest.mark.parametrize("kind, numpy_type", [("F64", "<f8"), ("F32", "<f4"), ("F16", "<f2"), ("I64", "<i8")])
def test_types_of_numbers(kind, numpy_type, tmp_path):
    values = VALUES.astype(numpy_type)
    file = tmp_path / "a.safetensors"
    file.write_bytes(safetensors({"first": (kind, values), "second": (kind, values.T.copy())}))
    read = read_state_dict(file)
    assert list(read) == ["first", "second"] and read["first"].dtype == np.float32
    np.testing.assert_array_equal(read["first"], values)
    np.testing.assert_array_equal(read["second"], values.T)


def test_bfloat16(tmp_path):
    """The upper halves of float32 numbers."""
    halves = (VALUES.astype("<f4").view("<u4") >> 16).astype("<u2")
    (tmp_path / "a.safetensors").write_bytes(safetensors({"first": ("BF16", halves)}))
    np.testing.assert_array_equal(read_state_dict(tmp_path / "a.safetensors")["first"], VALUES)


WHOLE = safetensors({"first": ("F32", VALUES.astype("<f4"))})
DAMAGED = {
    "empty": b"",
    "text": b"this is text, and long enough",
    "cut": WHOLE[:-1],
    "no_header": WHOLE[:8],
    "other_type": safetensors({"first": ("F8", VALUES.astype("<f4"))}),
    # Each number many times: a small file would fill the memory.
    "overlapping": safetensors({name: ("F32", VALUES.astype("<f4")) for name in "ab"}).replace(
        b"[24, 48]", b"[ 0, 24]"
    ),
    "before_the_data": WHOLE.replace(b"[0, 24]", b"[-8,16]"),
    "list": struct.pack("<Q", 2) + b"[]",
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_damaged_files_are_named(content, tmp_path):
    (tmp_path / "bad.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match="bad.safetensors is damaged, or is not a safetensors file"):
        read_state_dict(tmp_path / "bad.safetensors")


def test_without_torch_its_files_name_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    (tmp_path / "a.pth").write_bytes(b"PK")
    with pytest.raises(ImportError, match=r"a.pth needs PyTorch.*tfdml\[convert\]"):
        read_state_dict(tmp_path / "a.pth")

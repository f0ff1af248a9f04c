"""Reads PyTorch state dicts from files, without running code that a pickle might contain."""

import itertools
import pickle
import struct
from pathlib import Path

import numpy as np

from tfdml.files.checked import json_of, open_file, read_bytes

# Types of the safetensors format that NumPy has; bfloat16 is the upper half of a float32.
TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "U8": "u1", "BOOL": "?"}


def read_state_dict(path):
    """Returns name to NumPy array, from a file of `torch.save` or a `.safetensors` file."""
    return _read_safetensors(path) if Path(path).suffix == ".safetensors" else _read_torch(path)


def _read_torch(path):
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"Reading {path} needs PyTorch, a CPU build is enough: pip install 'tfdml[convert]'. Without it, give the "
            f"weights as a .safetensors file. The import failed: {error}"
        ) from error
    try:
        with open_file(path) as file:
            state = torch.load(file, map_location="cpu", weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError, KeyError, ValueError) as error:
        reason = str(error).split("\n")[0] or "it is empty"
        raise ValueError(f"{path} cannot be read as weights of PyTorch: {reason}") from error
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise ValueError(f"{path} holds no state dict: expected a dictionary of tensors, received {type(state)}.")
    return {name: value.detach().to(torch.float32).numpy() for name, value in state.items()}


def _read_safetensors(path):
    content = read_bytes(path)
    try:
        (length,) = struct.unpack_from("<Q", content)
        header = json_of(content[8 : 8 + length])
        data = memoryview(content)[8 + length :]
        ends = sorted(entry["data_offsets"] for name, entry in header.items() if name != "__metadata__")
        if any(first < before for (_, before), (first, _) in itertools.pairwise([[0, 0], *ends])):
            raise ValueError("its tensors overlap, or begin before the data")
        return {name: _array(entry, data) for name, entry in header.items() if name != "__metadata__"}
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is damaged, or no safetensors file: {error}") from error


def _array(entry, data):
    first, last = entry["data_offsets"]
    values = np.frombuffer(data[first:last], TYPES[entry["dtype"]]).reshape(entry["shape"])
    if entry["dtype"] == "BF16":
        values = (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float32)

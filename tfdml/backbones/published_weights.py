"""Reads published PyTorch and Caffe weights without running code from their files."""

import collections.abc
import dataclasses
import functools
import itertools
import pickle
import re
import struct
from pathlib import Path

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

from tfdml import registry
from tfdml.files.checked import json_of, open_file, read_bytes, vacated

# NumPy's names for the types of the safetensors format. bfloat16 is read as the upper half of a float32.
TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "U8": "u1", "BOOL": "?"}


def read_state_dict(path):
    """Returns a dictionary from names to NumPy arrays, from a file of `torch.save` or a `.safetensors` file."""
    return _read_safetensors(path) if Path(path).suffix == ".safetensors" else _read_torch(path)


def _read_torch(path):
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"Reading {path} needs PyTorch. A CPU build is enough: pip install 'tfdml[convert]'. Without PyTorch, "
            f"use a .safetensors file of the weights. The import failed with: {error}"
        ) from error
    try:
        with open_file(path) as file:
            state = torch.load(file, map_location="cpu", weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError, KeyError, ValueError) as error:
        reason = str(error).split("\n")[0] or "it is empty"
        raise ValueError(f"{path} cannot be read as PyTorch weights: {reason}") from error
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise ValueError(
            f"{path} does not contain a state dict. Expected a dictionary of tensors. Received: {type(state).__name__}."
        )
    return {name: value.detach().to(torch.float32).numpy() for name, value in state.items()}


def _read_safetensors(path):
    content = read_bytes(path)
    try:
        (length,) = struct.unpack_from("<Q", content)
        header = json_of(content[8 : 8 + length])
        data = memoryview(content)[8 + length :]
        ends = sorted(entry["data_offsets"] for name, entry in header.items() if name != "__metadata__")
        if any(first < before for (_, before), (first, _) in itertools.pairwise([[0, 0], *ends])):
            raise ValueError("its tensors overlap, or start before the data")
        return {name: _array_of_entry(entry, data) for name, entry in header.items() if name != "__metadata__"}
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is damaged, or is not a safetensors file: {error}") from error


def _array_of_entry(entry, data):
    first, last = entry["data_offsets"]
    values = np.frombuffer(data[first:last], TYPES[entry["dtype"]]).reshape(entry["shape"])
    if entry["dtype"] == "BF16":
        values = (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float32)


Field = descriptor_pb2.FieldDescriptorProto
# The messages of `caffe.proto`. Each field has a number, a name, a type, and whether it is repeated.
MESSAGES = {
    "BlobShape": [(1, "dim", Field.TYPE_INT64, True)],
    "BlobProto": [
        *(
            (number, name, Field.TYPE_INT32, False)
            for number, name in enumerate(("num", "channels", "height", "width"), 1)
        ),
        (5, "data", Field.TYPE_FLOAT, True),
        (7, "shape", "BlobShape", False),
    ],
    "LayerParameter": [(1, "name", Field.TYPE_STRING, False), (7, "blobs", "BlobProto", True)],
    # Caffe used this message until 2014.
    "V1LayerParameter": [(4, "name", Field.TYPE_STRING, False), (6, "blobs", "BlobProto", True)],
    "NetParameter": [(2, "layers", "V1LayerParameter", True), (100, "layer", "LayerParameter", True)],
}
ROLES = ("weight", "bias")


def read_caffemodel(path):
    """Returns a dictionary from names, such as `inception_3a/1x1.weight`, to float32 arrays."""
    net = _net_class()()
    try:
        net.ParseFromString(read_bytes(path))
        arrays = {
            f"{layer.name}.{ROLES[number] if number < len(ROLES) else number}": _array_of_blob(blob)
            for layer in (*net.layers, *net.layer)
            for number, blob in enumerate(layer.blobs)
        }
    except (ValueError, message.DecodeError) as error:
        raise ValueError(f"{path} is damaged, or is not a caffemodel: {error}") from error
    if not arrays:
        raise ValueError(f"{path} is not a caffemodel, or has no weights.")
    return arrays


def _array_of_blob(blob):
    values = np.array(blob.data, np.float32)
    if blob.HasField("shape"):
        return values.reshape(blob.shape.dim)
    shape = [getattr(blob, name) if blob.HasField(name) else 1 for name in ("num", "channels", "height", "width")]
    while len(shape) > 1 and shape[0] == 1:
        # A bias has only one dimension that is not 1.
        shape.pop(0)
    return values.reshape(shape)


@functools.cache
def _net_class():
    file = descriptor_pb2.FileDescriptorProto(name="tfdml/caffe.proto", package="tfdml", syntax="proto2")
    for name, fields in MESSAGES.items():
        described = file.message_type.add(name=name)
        for number, field, kind, repeated in fields:
            value_type = (
                {"type": kind} if isinstance(kind, int) else {"type": Field.TYPE_MESSAGE, "type_name": f".tfdml.{kind}"}
            )
            label = Field.LABEL_REPEATED if repeated else Field.LABEL_OPTIONAL
            described.field.add(number=number, name=field, label=label, **value_type)
    # Use a separate pool, because Caffe's own module may have registered messages with these names.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tfdml.NetParameter"))


# Names of parameters in Keras and in PyTorch.
PARAMETERS = {
    "kernel": "weight",
    "bias": "bias",
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
}
BRANCHES = {
    "1x1": "branch1",
    "3x3_reduce": "branch2.0",
    "3x3": "branch2.1",
    "5x5_reduce": "branch3.0",
    "5x5": "branch3.1",
    "pool_proj": "branch4.1",
}
STEM = {"conv1_7x7_s2": "conv1", "conv2_3x3_reduce": "conv2", "conv2_3x3": "conv3"}


@dataclasses.dataclass(frozen=True)
class PublishedFile:
    """A published file and the spec of the backbone that it fits.

    `read` is a function from its path to `{name: array}`. `rename` is a function from the name of a layer to the prefix
    of its parameters in the file. `left_out` is a regular expression for parameters in the file that are not used, such
    as classifiers and counters.
    """

    backbone: str
    url: str
    read: collections.abc.Callable
    rename: collections.abc.Callable
    left_out: str


def convert(source, tensors, show=print):
    """Creates a backbone with published weights, which the `read` function of the source returns.

    The source is a key of `SOURCES`. `show` is called with a line for each parameter.
    """
    published = SOURCES[source]
    backbone = registry.create("backbone", published.backbone)
    pairs = [
        (f"{published.rename(layer.name)}.{PARAMETERS[variable.name]}", f"{layer.name}/{variable.name}", variable)
        for layer in backbone.layers
        for variable in layer.variables
    ]
    check_names(f"{source}, published at {published.url}", tensors, [name for name, _, _ in pairs], published.left_out)
    for name, own, variable in pairs:
        values = np.asarray(tensors[name])
        if values.ndim == 4:
            values = values.transpose(2, 3, 1, 0)
        if values.ndim == 2 and len(values) == 1:
            # Some BN-Inception files that were converted from Caffe store vectors as rows.
            values = values[0]
        if values.shape != tuple(variable.shape):
            raise ValueError(
                f"{name} of the file does not fit {own} of {backbone.name}. Expected shape {tuple(variable.shape)}. "
                f"Received: shape {tensors[name].shape}. Use the file of {source}, published at {published.url}."
            )
        variable.assign(values)
        show(f"{own} {tuple(variable.shape)} <- {name}")
    for name in tensors.keys() - {name for name, _, _ in pairs}:
        show(f"not used: {name} {tensors[name].shape}")
    return backbone


def convert_file(source, published, output):
    """Converts a file of published weights and returns the number of parameters.

    The source is a key of `SOURCES`. `output` is a `Path` that ends with `.weights.h5`.
    """
    backbone = convert(source, SOURCES[source].read(published))
    unfinished = output.with_name(f".writing-{output.name}")
    backbone.save_weights(vacated(unfinished))
    unfinished.rename(output)
    return len(backbone.weights)


def advice(backbone):
    """Returns how to get ImageNet weights for a backbone that cannot download them, or "" if no file is known."""
    for name, source in SOURCES.items():
        ((kind, arguments),) = registry.parse(source.backbone)
        if backbone.name == kind and all(getattr(backbone, key) == value for key, value in arguments.items()):
            output = f"{name}.weights.h5"
            return (
                f"Download {source.url}, run python -m tfdml.convert_weights --source={name} "
                f"--input={source.url.rsplit('/', 1)[1]} --output={output}, and set --initial_weights={output}."
            )
    return ""


def check_names(what, tensors, expected, left_out):
    """Raises a ValueError if parameters are missing in the tensors of a file, or if it has unexpected ones.

    `what` describes the file. `left_out` is a regular expression for names that the file may have in addition.
    """
    missing = [name for name in expected if name not in tensors]
    others = set(tensors).difference(expected)
    unexpected = [name for name in tensors if name in others and not re.fullmatch(left_out, name)]
    if missing or unexpected:
        raise ValueError(
            f"The file does not match the source {what}. Missing: {', '.join(missing) or 'none'}. "
            f"Unexpected: {', '.join(unexpected) or 'none'}."
        )


def _of_torchvision_googlenet(layer):
    name = layer.removesuffix("_norm")
    if name in STEM:
        place = STEM[name]
    else:
        _, block, branch = name.split("_", 2)
        place = f"inception{block}.{BRANCHES[branch]}"
    return f"{place}.{'conv' if name == layer else 'bn'}"


def _of_torchvision_resnet(layer):
    name = layer.removesuffix("_norm")
    block = re.fullmatch(r"stage(\d+)_block(\d+)_(.*)", name)
    prefix, name = (f"layer{block[1]}.{int(block[2]) - 1}.", block[3]) if block else ("", name)
    is_norm = layer.endswith("_norm")
    if name == "shortcut":
        return f"{prefix}downsample.{int(is_norm)}"
    return prefix + (name.replace("conv", "bn") if is_norm else name)


TORCHVISION = {"read": read_state_dict, "left_out": r"fc\..*|aux\d\..*|.*\.num_batches_tracked"}
PYTORCH = "https://download.pytorch.org/models"
SOURCES = {
    "torchvision_googlenet": PublishedFile(
        "googlenet(batch_norm=True)",
        f"{PYTORCH}/googlenet-1378be20.pth",
        rename=_of_torchvision_googlenet,
        **TORCHVISION,
    ),
    "torchvision_resnet18": PublishedFile(
        "resnet18", f"{PYTORCH}/resnet18-f37072fd.pth", rename=_of_torchvision_resnet, **TORCHVISION
    ),
    "torchvision_resnet50": PublishedFile(
        "resnet50", f"{PYTORCH}/resnet50-0676ba61.pth", rename=_of_torchvision_resnet, **TORCHVISION
    ),
    "cadene_bninception": PublishedFile(
        "bn_inception",
        "http://data.lip6.fr/cadene/pretrainedmodels/bn_inception-52deb4733.pth",
        read=read_state_dict,
        rename=lambda layer: re.sub("_norm$", "_bn", layer),
        left_out=r"last_linear\..*|fc\..*|.*\.num_batches_tracked",
    ),
    "caffe_googlenet": PublishedFile(
        "googlenet(batch_norm=False)",
        "http://dl.caffe.berkeleyvision.org/bvlc_googlenet.caffemodel",
        read=read_caffemodel,
        rename=lambda layer: re.sub(r"^(conv\d|inception_\d[a-e])_", r"\1/", layer),
        left_out=r"loss\d/.*",
    ),
}

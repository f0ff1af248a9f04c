"""Published ImageNet weights: the files for each backbone, and the names of their parameters."""

import collections.abc
import dataclasses
import re

import numpy as np

from tfdml import registry
from tfdml.backbones.weights.caffemodel import read_caffemodel
from tfdml.backbones.weights.state_dicts import read_state_dict
from tfdml.files.checked import vacated

# Names of parameters in Keras, and in PyTorch.
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
class Source:
    """A published file.

    Args:
        backbone: spec of the backbone that it fits.
        url: its address.
        read: function from its path to `{name: array}`.
        rename: function from a layer's name to the prefix of its parameters in the file.
        left_out: regular expression of other parameters in the file, such as classifiers and counters.
    """

    backbone: str
    url: str
    read: collections.abc.Callable
    rename: collections.abc.Callable
    left_out: str


def convert(source, tensors, show=print):
    """Creates a backbone with published weights.

    Args:
        source: key of `SOURCES`.
        tensors: `{name: array}`, as the source's `read` returns it.
        show: function that is called with a line for each parameter.
    """
    published = SOURCES[source]
    backbone = registry.create("backbone", published.backbone)
    pairs = [
        (f"{published.rename(layer.name)}.{PARAMETERS[variable.name]}", f"{layer.name}/{variable.name}", variable)
        for layer in backbone.layers
        for variable in layer.variables
    ]
    _check_names(source, tensors, [name for name, _, _ in pairs])
    for name, own, variable in pairs:
        values = np.asarray(tensors[name])
        if values.ndim == 4:
            values = values.transpose(2, 3, 1, 0)
        if values.ndim == 2 and len(values) == 1:
            # Some files of BN-Inception, converted from Caffe, have vectors as rows.
            values = values[0]
        if values.shape != tuple(variable.shape):
            raise ValueError(
                f"{name} of the file has shape {tensors[name].shape} and does not fit {own} of {backbone.name}, whose "
                f"shape is {tuple(variable.shape)}. Is it a file of {source}, published at {published.url}?"
            )
        variable.assign(values)
        show(f"{own} {tuple(variable.shape)} <- {name}")
    for name in tensors.keys() - {name for name, _, _ in pairs}:
        show(f"left out: {name} {tensors[name].shape}")
    return backbone


def convert_file(source, published, output):
    """Converts a file of published weights; returns the number of parameters.

    Args:
        source: key of `SOURCES`.
        published: path of the file.
        output: `Path` to write to; its name ends with `.weights.h5`.
    """
    backbone = convert(source, SOURCES[source].read(published))
    unfinished = output.with_name(f".writing-{output.name}")
    backbone.save_weights(vacated(unfinished))
    unfinished.rename(output)
    return len(backbone.weights)


def advice(backbone):
    """Returns how to get ImageNet weights for a backbone without a download of its own; empty if no file is known."""
    for name, source in SOURCES.items():
        ((kind, arguments),) = registry.parse(source.backbone)
        if backbone.name == kind and all(getattr(backbone, key) == value for key, value in arguments.items()):
            output = f"{name}.weights.h5"
            return (
                f"Get {source.url}, run python -m tfdml.convert_weights --source={name} "
                f"--input={source.url.rsplit('/', 1)[1]} --output={output}, and give --initial_weights={output}."
            )
    return ""


def _check_names(source, tensors, expected):
    missing = [name for name in expected if name not in tensors]
    known = set(expected)
    rest = [name for name in tensors if name not in known]
    unexpected = [name for name in rest if not re.fullmatch(SOURCES[source].left_out, name)]
    if missing or unexpected:
        raise ValueError(
            f"The file is none of {source}, published at {SOURCES[source].url}. "
            f"Missing: {', '.join(missing) or 'none'}. Unexpected: {', '.join(unexpected) or 'none'}."
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


def _of_cadene(layer):
    return re.sub("_norm$", "_bn", layer)


def _of_caffe(layer):
    return re.sub(r"^(conv\d|inception_\d[a-e])_", r"\1/", layer)


TORCHVISION = {"read": read_state_dict, "left_out": r"fc\..*|aux\d\..*|.*\.num_batches_tracked"}
PYTORCH = "https://download.pytorch.org/models"
SOURCES = {
    "torchvision_googlenet": Source(
        "googlenet(batch_norm=True)",
        f"{PYTORCH}/googlenet-1378be20.pth",
        rename=_of_torchvision_googlenet,
        **TORCHVISION,
    ),
    "torchvision_resnet18": Source(
        "resnet18", f"{PYTORCH}/resnet18-f37072fd.pth", rename=_of_torchvision_resnet, **TORCHVISION
    ),
    "torchvision_resnet50": Source(
        "resnet50", f"{PYTORCH}/resnet50-0676ba61.pth", rename=_of_torchvision_resnet, **TORCHVISION
    ),
    "cadene_bninception": Source(
        "bn_inception",
        "http://data.lip6.fr/cadene/pretrainedmodels/bn_inception-52deb4733.pth",
        read=read_state_dict,
        rename=_of_cadene,
        left_out=r"last_linear\..*|fc\..*|.*\.num_batches_tracked",
    ),
    "caffe_googlenet": Source(
        "googlenet(batch_norm=False)",
        "http://dl.caffe.berkeleyvision.org/bvlc_googlenet.caffemodel",
        read=read_caffemodel,
        rename=_of_caffe,
        left_out=r"loss\d/.*",
    ),
}

"""Inception with batch norm (Ioffe and Szegedy, 2015), in the layout of its published weights."""

from typing import Unpack

from keras import layers

from tfdml.backbones.backbone import Backbone
from tfdml.backbones.convolution import convolution
from tfdml.layers.pooling import CeilMaxPooling
from tfdml.registry import register
from tfdml.registry.arguments import ModelArguments

# Channels of the branches of a block: 1x1; 3x3_reduce, 3x3; double_3x3_reduce, _1, _2; pooling and channels of
# pool_proj. Blocks without the first and last branch halve the resolution.
BLOCKS = {
    "3a": (64, (64, 64), (64, 96, 96), ("avg", 32)),
    "3b": (64, (64, 96), (64, 96, 96), ("avg", 64)),
    "3c": (None, (128, 160), (64, 96, 96), None),
    "4a": (224, (64, 96), (96, 128, 128), ("avg", 128)),
    "4b": (192, (96, 128), (96, 128, 128), ("avg", 128)),
    "4c": (160, (128, 160), (128, 160, 160), ("avg", 128)),
    "4d": (96, (128, 192), (160, 192, 192), ("avg", 128)),
    "4e": (None, (128, 192), (192, 256, 256), None),
    "5a": (352, (192, 320), (160, 224, 224), ("avg", 128)),
    "5b": (352, (192, 320), (192, 224, 224), ("max", 128)),
}
STEP = {"bias": True, "norm_epsilon": 1e-5}


@register("backbone", "bn_inception")
class BNInception(Backbone):
    """GoogLeNet V2 (BN-Inception), in the layout of pretrainedmodels; used by Ranked List Loss and many other papers.

    Endpoints: `pool1`, `pool2`, `inception_3a` to `inception_3c`, `inception_4a` to `inception_4e`, `inception_5a`,
    `inception_5b`. The classifier is left out. As in the published network, strided convolutions and poolings agree in
    size only if features have even sides: use images of 227 pixels, or of a multiple of 32 such as 224 and 256.
    """

    # The levels are those of Ranked List Loss; `inception_3c` is at the depth of `pool3` of `googlenet`.
    method_defaults = {
        "branch": "inception_3c",
        "attention_depth": 5,
        "levels": ("inception_3c", "inception_4e", "inception_5b"),
    }

    def __init__(self, **kwargs: Unpack[ModelArguments]):
        inputs = layers.Input((None, None, 3), name="images")
        endpoints = {}
        features = convolution(inputs, 64, 7, stride=2, name="conv1_7x7_s2", **STEP)
        features = endpoints["pool1"] = CeilMaxPooling(3, 2, name="pool1")(features)
        features = convolution(features, 64, name="conv2_3x3_reduce", **STEP)
        features = convolution(features, 192, 3, name="conv2_3x3", **STEP)
        features = endpoints["pool2"] = CeilMaxPooling(3, 2, name="pool2")(features)
        for block in BLOCKS:
            features = endpoints[f"inception_{block}"] = _inception(features, block, f"inception_{block}")
        mean = (104.0, 117.0, 128.0)
        arguments = {"mean": mean, "std": (1.0,) * 3, "channels": "bgr", "image_size": 224}
        super().__init__(inputs, endpoints, **arguments, **{"name": "bn_inception", **kwargs})


def _inception(features, block, name):
    one, three, double, pool = BLOCKS[block]
    stride = 1 if pool else 2
    branches = []
    if one:
        branches.append(convolution(features, one, name=f"{name}_1x1", **STEP))
    branch = convolution(features, three[0], name=f"{name}_3x3_reduce", **STEP)
    branches.append(convolution(branch, three[1], 3, stride=stride, name=f"{name}_3x3", **STEP))
    branch = convolution(features, double[0], name=f"{name}_double_3x3_reduce", **STEP)
    branch = convolution(branch, double[1], 3, name=f"{name}_double_3x3_1", **STEP)
    branches.append(convolution(branch, double[2], 3, stride=stride, name=f"{name}_double_3x3_2", **STEP))
    branches.append(_pooling(features, pool, name))
    return layers.Concatenate(name=name)(branches)


def _pooling(features, pool, name):
    if pool is None:
        return CeilMaxPooling(3, 2, name=f"{name}_pool")(features)
    kind, channels = pool
    if kind == "max":
        features = layers.MaxPooling2D(3, 1, padding="same", name=f"{name}_pool")(features)
    else:
        # The published network also divides by nine at the border, unlike Keras' "same".
        features = layers.ZeroPadding2D(1, name=f"{name}_pool_pad")(features)
        features = layers.AveragePooling2D(3, 1, name=f"{name}_pool")(features)
    return convolution(features, channels, name=f"{name}_pool_proj", **STEP)

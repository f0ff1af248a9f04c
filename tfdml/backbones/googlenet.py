"""GoogLeNet (Szegedy et al., 2015), in the layouts of Caffe and torchvision, for their weights."""

from typing import Unpack

from keras import layers

from tfdml.backbones.backbone import Backbone
from tfdml.backbones.convolution import convolution
from tfdml.layers.norms import LocalResponseNorm
from tfdml.layers.pooling import CeilMaxPooling
from tfdml.registry import register
from tfdml.registry.arguments import ModelArguments

# Channels of the six convolutions of a block: 1x1, 3x3_reduce, 3x3, 5x5_reduce, 5x5, pool_proj.
BLOCKS = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}


@register("backbone", "googlenet")
class GoogLeNet(Backbone):
    """GoogLeNet (Inception v1): Caffe's bvlc_googlenet with local response norm, or torchvision's with batch norm.

    Endpoints: `pool1`, `pool2`, `inception_3a`, `inception_3b`, `pool3`, `inception_4a` to `inception_4e`, `pool4`,
    `inception_5a`, `inception_5b`. Classifiers are left out. torchvision's has 3 × 3 kernels in the branch named 5x5,
    and a last pooling of 2 × 2.

    Args:
        batch_norm: True for torchvision's network, False for Caffe's.
    """

    # Those of Attention-based Ensemble, and of Ranked List Loss in bn_inception, before the same poolings.
    method_defaults = {
        "branch": "pool3",
        "attention_depth": 5,
        "levels": ("inception_3b", "inception_4e", "inception_5b"),
    }

    def __init__(self, batch_norm: bool = False, **kwargs: Unpack[ModelArguments]):
        step = {"bias": False, "norm_epsilon": 1e-3} if batch_norm else {"bias": True}
        inputs = layers.Input((None, None, 3), name="images")
        endpoints = {}

        def pool(features, name, size=3):
            endpoints[name] = CeilMaxPooling(size, 2, name=name)(features)
            return endpoints[name]

        def norm(features, name):
            return features if batch_norm else LocalResponseNorm(name=name)(features)

        features = convolution(inputs, 64, 7, stride=2, name="conv1_7x7_s2", **step)
        features = norm(pool(features, "pool1"), "norm1")
        features = convolution(features, 64, name="conv2_3x3_reduce", **step)
        features = convolution(features, 192, 3, name="conv2_3x3", **step)
        features = pool(norm(features, "norm2"), "pool2")
        for block in BLOCKS:
            name = f"inception_{block}"
            features = endpoints[name] = _inception(features, block, name, 3 if batch_norm else 5, step)
            if block == "3b":
                features = pool(features, "pool3")
            elif block == "4e":
                features = pool(features, "pool4", 2 if batch_norm else 3)
        super().__init__(inputs, endpoints, **_preprocessing(batch_norm), **{"name": "googlenet", **kwargs})
        self.batch_norm = batch_norm

    def get_config(self):
        return {**super().get_config(), "batch_norm": self.batch_norm}


def _preprocessing(batch_norm):
    if batch_norm:
        # The result of torchvision's ImageNet statistics and its `transform_input`.
        return {"mean": (127.5,) * 3, "std": (127.5,) * 3, "image_size": 224}
    return {"mean": (104.0, 117.0, 123.0), "std": (1.0,) * 3, "channels": "bgr", "image_size": 224}


def _inception(features, block, name, large, step):
    """Applies a block of four parallel branches.

    Args:
        features: Keras tensor.
        block: key of `BLOCKS`.
        name: prefix of the names of layers.
        large: side of the kernel in the branch named 5x5.
        step: arguments of all convolutions.
    """
    one, reduce_three, three, reduce_five, five, projection = BLOCKS[block]
    branch1 = convolution(features, one, name=f"{name}_1x1", **step)
    branch2 = convolution(features, reduce_three, name=f"{name}_3x3_reduce", **step)
    branch2 = convolution(branch2, three, 3, name=f"{name}_3x3", **step)
    branch3 = convolution(features, reduce_five, name=f"{name}_5x5_reduce", **step)
    branch3 = convolution(branch3, five, large, name=f"{name}_5x5", **step)
    branch4 = layers.MaxPooling2D(3, 1, padding="same", name=f"{name}_pool")(features)
    branch4 = convolution(branch4, projection, name=f"{name}_pool_proj", **step)
    return layers.Concatenate(name=name)([branch1, branch2, branch3, branch4])

"""GoogLeNet (Szegedy et al. 2015) and Inception with batch norm (Ioffe and Szegedy 2015)."""

from typing import Unpack

from keras import layers

from tfdml.backbones.backbone import Backbone
from tfdml.layers.norms import LocalResponseNorm
from tfdml.layers.pooling import CeilMaxPooling
from tfdml.registry import register
from tfdml.registry.arguments import ModelArguments


def convolution(features, channels, size=1, *, name, stride=1, bias=False, norm_epsilon=None, relu=True):
    """Applies a convolution, batch norm and ReLU, with layers `name`, `name_norm` and `name_relu`.

    The side of the kernel is odd. With a stride, the first window starts `size // 2` outside the features. If
    `norm_epsilon` is None, there are only the convolution and ReLU.
    """
    padding = "same"
    if stride > 1 and size > 1:
        # With strides, Keras' "same" places windows differently than pretrained weights expect.
        features = layers.ZeroPadding2D(size // 2, name=f"{name}_pad")(features)
        padding = "valid"
    arguments = {"strides": stride, "padding": padding, "use_bias": bias, "kernel_initializer": "he_normal"}
    features = layers.Conv2D(channels, size, name=name, **arguments)(features)
    if norm_epsilon is not None:
        features = layers.BatchNormalization(momentum=0.9, epsilon=norm_epsilon, name=f"{name}_norm")(features)
    return layers.ReLU(name=f"{name}_relu")(features) if relu else features


# Channels of the branches of a block: 1x1; 3x3_reduce, 3x3; double_3x3_reduce, _1, _2; pooling and channels of
# pool_proj. Blocks without the first and last branch halve the resolution.
BN_INCEPTION_BLOCKS = {
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
    """BN-Inception (GoogLeNet V2), the backbone of Ranked List Loss and many other metric learning papers.

    The network has the layout of PyTorch's `pretrainedmodels` package. Convert those ImageNet weights with
    `python -m tfdml.convert_weights --source=cadene_bninception`. It has no classifier. The endpoints are `pool1`,
    `pool2`, `inception_3a` to `inception_3c`, `inception_4a` to `inception_4e`, `inception_5a` and `inception_5b`. Use
    images of 227 pixels or of a multiple of 32, such as 224 and 256. As in the published network, strided convolutions
    and poolings only have outputs of the same size if features have even sides.

    Args:
        **kwargs: `name`, `trainable` and `dtype` of `keras.Model`.

    Example:

    ```python
    backbone = tfdml.backbones.BNInception()
    backbone.compute_output_shape((1, 224, 224, 3))  # (1, 7, 7, 1024)
    ```
    """

    # The levels are from Ranked List Loss. `inception_3c` has the same depth as `pool3` of `googlenet`.
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
        for block in BN_INCEPTION_BLOCKS:
            features = endpoints[f"inception_{block}"] = _bn_inception_block(features, block, f"inception_{block}")
        mean = (104.0, 117.0, 128.0)
        arguments = {"mean": mean, "std": (1.0,) * 3, "channels": "bgr", "image_size": 224}
        super().__init__(inputs, endpoints, **arguments, **{"name": "bn_inception", **kwargs})


def _bn_inception_block(features, block, name):
    one, three, double, pool = BN_INCEPTION_BLOCKS[block]
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
        # Unlike Keras' "same", the published network also divides by nine at the border.
        features = layers.ZeroPadding2D(1, name=f"{name}_pool_pad")(features)
        features = layers.AveragePooling2D(3, 1, name=f"{name}_pool")(features)
    return convolution(features, channels, name=f"{name}_pool_proj", **STEP)


# Channels of the six convolutions of a block: 1x1, 3x3_reduce, 3x3, 5x5_reduce, 5x5, pool_proj.
GOOGLENET_BLOCKS = {
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
    """GoogLeNet (Inception v1), with the local response normalization of Caffe or the batch norm of torchvision.

    Use it to reproduce papers, such as Attention-based Ensemble. Convert ImageNet weights with
    `python -m tfdml.convert_weights`. It has no classifiers. The endpoints are `pool1`, `pool2`, `inception_3a`,
    `inception_3b`, `pool3`, `inception_4a` to `inception_4e`, `pool4`, `inception_5a` and `inception_5b`. torchvision's
    network has 3 × 3 kernels in the branch named `5x5`, and a last pooling of 2 × 2.

    Args:
        batch_norm: Boolean. `True` builds torchvision's network, and `False` builds Caffe's `bvlc_googlenet`. Defaults
            to `False`.
        **kwargs: `name`, `trainable` and `dtype` of `keras.Model`.

    Example:

    ```python
    backbone = tfdml.backbones.GoogLeNet(batch_norm=True)
    backbone.compute_output_shape((1, 224, 224, 3))  # (1, 7, 7, 1024)
    ```
    """

    # The branch is from Attention-based Ensemble. The levels precede the same poolings as in bn_inception.
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
        for block in GOOGLENET_BLOCKS:
            name = f"inception_{block}"
            features = endpoints[name] = _googlenet_block(features, block, name, 3 if batch_norm else 5, step)
            if block == "3b":
                features = pool(features, "pool3")
            elif block == "4e":
                features = pool(features, "pool4", 2 if batch_norm else 3)
        arguments = {"mean": (104.0, 117.0, 123.0), "std": (1.0,) * 3, "channels": "bgr", "image_size": 224}
        if batch_norm:
            # torchvision's ImageNet statistics and its `transform_input` result in this scaling.
            arguments = {"mean": (127.5,) * 3, "std": (127.5,) * 3, "image_size": 224}
        super().__init__(inputs, endpoints, **arguments, **{"name": "googlenet", **kwargs})
        self.batch_norm = batch_norm

    def get_config(self):
        return {**super().get_config(), "batch_norm": self.batch_norm}


def _googlenet_block(features, block, name, large, step):
    """Applies a block of four parallel branches. `large` is the side of the kernel in the branch named 5x5."""
    one, reduce_three, three, reduce_five, five, projection = GOOGLENET_BLOCKS[block]
    branch1 = convolution(features, one, name=f"{name}_1x1", **step)
    branch2 = convolution(features, reduce_three, name=f"{name}_3x3_reduce", **step)
    branch2 = convolution(branch2, three, 3, name=f"{name}_3x3", **step)
    branch3 = convolution(features, reduce_five, name=f"{name}_5x5_reduce", **step)
    branch3 = convolution(branch3, five, large, name=f"{name}_5x5", **step)
    branch4 = layers.MaxPooling2D(3, 1, padding="same", name=f"{name}_pool")(features)
    branch4 = convolution(branch4, projection, name=f"{name}_pool_proj", **step)
    return layers.Concatenate(name=name)([branch1, branch2, branch3, branch4])

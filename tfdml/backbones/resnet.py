"""Residual networks (He et al., 2016) in the layout of torchvision, so that its weights can be loaded."""

from typing import Literal, Unpack

import keras
from keras import layers

from tfdml.backbones.backbone import Backbone
from tfdml.backbones.inception import convolution
from tfdml.registry import register
from tfdml.registry.arguments import ModelArguments

# For each depth, the number of blocks per stage, and whether they are bottlenecks.
DEPTHS = {18: ((2, 2, 2, 2), False), 50: ((3, 4, 6, 3), True)}
EPSILON = 1e-5


@keras.saving.register_keras_serializable(package="tfdml")
class ResNet(Backbone):
    """Residual network in the layout of torchvision, with 18 or 50 layers.

    Convert torchvision's ImageNet weights with `python -m tfdml.convert_weights --source=torchvision_resnet50`. The
    endpoints are `stage1` to `stage4`, at 1/4 to 1/32 of the resolution.

    Args:
        depth: Number of layers, `18` or `50`.
        **kwargs: `name`, `trainable` and `dtype` of `keras.Model`.

    Example:

    ```python
    backbone = tfdml.backbones.ResNet(18)
    backbone.compute_output_shape((1, 224, 224, 3))  # (1, 7, 7, 512)
    ```
    """

    def __init__(self, depth: Literal[18, 50], **kwargs: Unpack[ModelArguments]):
        blocks, bottleneck = DEPTHS[depth]
        inputs = layers.Input((None, None, 3), name="images")
        features = convolution(inputs, 64, 7, stride=2, name="conv1", norm_epsilon=EPSILON)
        # Zero padding does not change the maximum, because the features are at least 0.
        features = layers.MaxPooling2D(3, 2, name="pool1")(layers.ZeroPadding2D(1, name="pool1_pad")(features))
        endpoints = {}
        for stage, count in enumerate(blocks):
            for block in range(count):
                stride = 2 if stage and not block else 1
                name = f"stage{stage + 1}_block{block + 1}"
                features = _block(features, 64 * 2**stage, stride, bottleneck, name)
            endpoints[f"stage{stage + 1}"] = features
        mean, std = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
        super().__init__(inputs, endpoints, mean=mean, std=std, image_size=224, **{"name": f"resnet{depth}", **kwargs})
        self.depth = depth

    def get_config(self):
        return {**super().get_config(), "depth": self.depth}


@register("backbone", "resnet18")
def resnet18() -> ResNet:
    """Creates a ResNet-18 in the layout of torchvision, with the endpoints `stage1` to `stage4`."""
    return ResNet(18)


@register("backbone", "resnet50")
def resnet50() -> ResNet:
    """Creates a ResNet-50 in the layout of torchvision, with strides in the 3 × 3 convolutions."""
    return ResNet(50)


def _block(features, width, stride, bottleneck, name):
    """Applies two convolutions, or three as a bottleneck, with a shortcut."""
    channels = 4 * width if bottleneck else width
    steps = [(width, 1, 1), (width, 3, stride), (channels, 1, 1)] if bottleneck else [(width, 3, stride), (width, 3, 1)]
    branch = features
    for number, (width, size, step_stride) in enumerate(steps, 1):
        arguments = {"norm_epsilon": EPSILON, "relu": number < len(steps), "name": f"{name}_conv{number}"}
        branch = convolution(branch, width, size, stride=step_stride, **arguments)
    if stride > 1 or features.shape[-1] != channels:
        shortcut = {"norm_epsilon": EPSILON, "relu": False, "name": f"{name}_shortcut"}
        features = convolution(features, channels, stride=stride, **shortcut)
    return layers.ReLU(name=f"{name}_relu")(layers.Add(name=f"{name}_add")([branch, features]))

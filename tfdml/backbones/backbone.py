"""Base of all backbones of tfdml."""

from collections.abc import Mapping, Sequence
from typing import Unpack

import keras

from tfdml.layers.endpoints import Endpoints
from tfdml.layers.norms import batch_norms, layers_in
from tfdml.registry.arguments import ChannelOrder, ImageSize, Interpolation, ModelArguments, Tensor
from tfdml.registry.fields import Declared


class Backbone(Declared, keras.Model, Endpoints):
    """A functional graph from images `[B, H, W, 3]` to features, with named endpoints and stages.

    Its input is `(pixels - mean) / std` of pixels from 0 to 255, with channels in the declared order. Pipelines and
    serving read this preprocessing from the backbone.

    Args:
        inputs: Keras input of the graph.
        endpoints: name to Keras tensor inside the graph, from shallow to deep; the last is the output.
        mean, std: the preprocessing, one number per channel, in the order of `channels`.
        channels: "rgb" or "bgr".
        image_size: size of the images that the network was designed for, in pixels: the side of a square, or (height,
            width).
        interpolation: how images are resized for it.
        **kwargs: `name`, `trainable` and `dtype`, as of `keras.Model`.
    """

    # Name to file of the pretrained weights that are included in tfdml.
    shipped_weights = {}
    # Whether it is made with pretrained weights.
    pretrained = False
    # Whether `load_imagenet` gets ImageNet weights, from a cache or by a download.
    downloads_imagenet = False

    def __init__(
        self,
        inputs: Tensor,
        endpoints: Mapping[str, Tensor],
        *,
        mean: Sequence[float],
        std: Sequence[float],
        channels: ChannelOrder = "rgb",
        image_size: ImageSize,
        interpolation: Interpolation = "bilinear",
        **kwargs: Unpack[ModelArguments],
    ):
        _check_precision(kwargs.pop("dtype", None))
        super().__init__(inputs=inputs, outputs=list(endpoints.values())[-1], **kwargs)
        self.endpoints = endpoints
        self.mean = tuple(mean)
        self.std = tuple(std)
        self.channels = channels
        self.image_size = image_size
        self.interpolation = interpolation

    @property
    def has_batch_norm(self) -> bool:
        """Whether it has batch normalization, which can be frozen."""
        return bool(batch_norms(self))

    def load_imagenet(self) -> None:
        """Loads ImageNet weights; only for backbones with `downloads_imagenet`."""
        raise NotImplementedError(
            f"There are no ImageNet weights of {self.name} to download. Those of KerasApplication have some, such as "
            "KerasApplication('ResNet50'); keras_hub and keras_cv come with theirs; docs/backbones.md says which "
            "others can be converted."
        )

    def get_config(self):
        return {"name": self.name, "trainable": self.trainable, "dtype": self.dtype_policy.name}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        del custom_objects
        with layers_in(config.get("dtype")):
            return cls(**config)


def _check_precision(policy):
    """Raises a ValueError if layers have another precision, which Keras would keep without a word."""
    found = keras.config.dtype_policy().name
    if policy is not None and keras.dtype_policies.get(policy).name != found:
        raise ValueError(
            f"The layers of a backbone have the global precision, {found}; received dtype={policy!r}. Call "
            f"keras.config.set_dtype_policy({policy!r}) before, or leave dtype out."
        )

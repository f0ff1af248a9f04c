"""The base of all backbones of tfdml, and the backbone for stored features."""

import contextlib
import sys
from collections.abc import Mapping, Sequence
from typing import Unpack

import keras

from tfdml.layers.endpoints import Endpoints
from tfdml.layers.norms import DropPath, batch_norms, layers_in
from tfdml.registry import register
from tfdml.registry.arguments import ChannelOrder, Count, ImageSize, Interpolation, ModelArguments, Tensor
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
        policy, precision = kwargs.pop("dtype", None), keras.config.dtype_policy().name
        # Keras would keep the layers' own precision without a word.
        if policy is not None and keras.dtype_policies.get(policy).name != precision:
            raise ValueError(
                f"The layers of a backbone have the global precision, {precision}; received dtype={policy!r}. Call "
                f"keras.config.set_dtype_policy({policy!r}) before, or leave dtype out."
            )
        super().__init__(inputs=inputs, outputs=list(endpoints.values())[-1], **kwargs)
        self.endpoints = endpoints
        self.mean, self.std = tuple(mean), tuple(std)
        self.channels, self.image_size, self.interpolation = channels, image_size, interpolation

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


# Of statistics that move; some networks of Keras have 0.999, for which they need 1,000 steps.
MOMENTUM = 0.9


def follow_batches(backbone: Backbone) -> float | None:
    """Lets moving statistics follow the last batches, because random weights change fast.

    Returns the largest momentum that they had; None if none was larger than that of the networks here.
    """
    slow = [layer for layer in batch_norms(backbone) if layer.momentum > MOMENTUM]
    largest = max((layer.momentum for layer in slow), default=None)
    for layer in slow:
        layer.momentum = MOMENTUM
    return largest


@register("backbone", "identity")
class Identity(Backbone):
    """No network: features that are stored, `[B, vector_dims]`, are passed on. For `--dataset="embeddings(...)"`.

    Args:
        vector_dims: number of dimensions. Default: those of the dataset.
    """

    # They are features of a network that knows something.
    pretrained = True

    def __init__(self, vector_dims: Count | None = None, **kwargs: Unpack[ModelArguments]):
        if vector_dims is None:
            raise ValueError(
                "The backbone identity requires vector_dims, because its inputs are vectors and not images. Expected "
                "their number of dimensions. Pass Identity(vector_dims=...). In a command, use another backbone, or "
                "--dataset=\"embeddings(path='...', test='...')\"."
            )
        vectors = keras.layers.Input((vector_dims,))
        kwargs = {"name": "identity", **kwargs}
        output = {"output": keras.layers.Identity()(vectors)}
        super().__init__(vectors, output, mean=(), std=(), image_size=1, **kwargs)
        self.vector_dims = vector_dims

    def get_config(self):
        return {**super().get_config(), "vector_dims": self.vector_dims}


# Networks to the argument that is the rate.
ARGUMENTS = {
    "DINOV2Backbone": "drop_path_rate",
    "DINOV3Backbone": "drop_path_rate",
    "MiTBackbone": "max_drop_path_rate",
    "MobileNetV5Backbone": "drop_path_rate",
    "SwinTransformerBackbone": "drop_path",
}
# Layers of keras-hub that refuse batches of any size, and would add noise instead of leaving branches out.
REPLACED = {
    "keras_hub.src.models.dinov2.dinov2_layers": "DINOV2DropPath",
    "keras_hub.src.models.dinov3.dinov3_layers": "DINOV3DropPath",
}


def with_drop_path(network, rate):
    """Returns a network of keras-hub with the same weights and another rate of drop path."""
    kind = type(network).__name__
    if kind not in ARGUMENTS:
        raise ValueError(f"{kind} has no drop path: leave out drop_path. It is in {', '.join(sorted(ARGUMENTS))}.")
    with working_drop_path():
        changed = type(network).from_config({**network.get_config(), ARGUMENTS[kind]: rate})
    changed.set_weights(network.get_weights())
    return changed


@contextlib.contextmanager
def working_drop_path():
    """A context in which networks of keras-hub are made with `DropPath` where their own does not work."""
    loaded = [(sys.modules[module], name) for module, name in REPLACED.items() if module in sys.modules]
    before = [(module, name, vars(module)[name]) for module, name in loaded if name in vars(module)]
    try:
        for module, name, _ in before:
            # DINOv3 computes its rates as tensors.
            setattr(module, name, lambda rate=0.0, **kwargs: DropPath(float(rate), **kwargs))
        yield
    finally:
        for module, name, own in before:
            setattr(module, name, own)

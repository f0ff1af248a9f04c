"""The base class of all tfdml backbones, and the backbone for stored features."""

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


@keras.saving.register_keras_serializable(package="tfdml")
class Backbone(Declared, keras.Model, Endpoints):
    """Functional Keras model from images `[B, H, W, 3]` to features, with named endpoints and its preprocessing.

    Use it to make your own network available to all methods. Methods such as `Multilevel` and `AttentionEnsemble` use
    the endpoints to divide the network. The input is `(pixels - mean) / std` of pixels from 0 to 255, with the channels
    in the declared order. Data pipelines, export and serving read this preprocessing from the backbone.

    Args:
        inputs: Keras input of the graph.
        endpoints: Dictionary from names to Keras tensors inside the graph, from shallow to deep. The last one is the
            output.
        mean, std: Tuples with one number per channel, in the order of `channels` and in units of 0 to 255.
        channels: Order of the channels, `"rgb"` or `"bgr"`. Defaults to `"rgb"`.
        image_size: Integer, the side of a square, or (height, width). Size in pixels of the images for which the
            network was designed.
        interpolation: How to resize images for the network. Defaults to `"bilinear"`.
        **kwargs: `name`, `trainable` and `dtype` of `keras.Model`.

    Raises:
        ValueError: If `dtype` differs from the global dtype policy, with which the layers were created.

    Example:

    ```python
    inputs = keras.Input((None, None, 3))
    first = keras.layers.Conv2D(8, 3, strides=2, padding="same", activation="relu")(inputs)
    second = keras.layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(first)
    endpoints = {"first": first, "second": second}
    backbone = tfdml.backbones.Backbone(inputs, endpoints, mean=(127.5,) * 3, std=(127.5,) * 3, image_size=32)
    backbone(np.random.uniform(-1, 1, (2, 32, 32, 3))).shape  # (2, 8, 8, 16)
    ```
    """

    # Dictionary from names to files of the pretrained weights that are part of tfdml.
    shipped_weights = {}
    # Whether the constructor loads pretrained weights.
    pretrained = False
    # The keras-hub preset with a text tower in the same space, or None. Files of models do not contain it.
    preset = None
    # Whether `load_imagenet` can get ImageNet weights, from a cache or by a download.
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
        # Keras would silently keep the precision of the layers.
        if policy is not None and keras.dtype_policies.get(policy).name != precision:
            raise ValueError(
                f"dtype must be the global dtype policy, which the layers of a backbone have. Expected {precision!r}. "
                f"Received: dtype={policy!r}. Call keras.config.set_dtype_policy({policy!r}) first, or remove dtype."
            )
        super().__init__(inputs=inputs, outputs=list(endpoints.values())[-1], **kwargs)
        self.endpoints = endpoints
        self.mean, self.std = tuple(mean), tuple(std)
        self.channels, self.image_size, self.interpolation = channels, image_size, interpolation

    @property
    def has_batch_norm(self) -> bool:
        """Whether the backbone has batch normalization layers, which can be frozen."""
        return bool(batch_norms(self))

    def load_imagenet(self) -> None:
        """Loads ImageNet weights from the cache, or downloads them. Only backbones with `downloads_imagenet` have them.

        Raises:
            NotImplementedError: If tfdml cannot download ImageNet weights for this backbone.
            OSError: If the download fails.
        """
        raise NotImplementedError(
            f"tfdml cannot download ImageNet weights for {self.name}. Use a network of keras.applications, such as "
            "KerasApplication('ResNet50'), or a preset of keras_hub or keras_cv, which has weights. To convert "
            "published weights for other backbones, see docs/backbones.md."
        )

    def get_config(self):
        config = {"name": self.name, "trainable": self.trainable, "dtype": self.dtype_policy.name}
        if type(self) is not Backbone:
            # Their constructors make the graph.
            return config
        graph = keras.Model(self.input, dict(self.endpoints), name=self.name)
        about = {name: getattr(self, name) for name in ("mean", "std", "channels", "image_size", "interpolation")}
        return {
            **config,
            **about,
            "graph": keras.saving.serialize_keras_object(graph),
            "endpoints": list(self.endpoints),
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        with layers_in(config.get("dtype")):
            if cls is Backbone:
                graph = keras.saving.deserialize_keras_object(config.pop("graph"), custom_objects=custom_objects)
                config |= {
                    "inputs": graph.input,
                    "endpoints": {name: graph.output[name] for name in config["endpoints"]},
                }
            return cls(**config)


# Momentum of moving statistics. Some Keras networks have 0.999, with which statistics need 1,000 steps to adapt.
MOMENTUM = 0.9


def follow_batches(backbone: Backbone) -> float | None:
    """Reduces the momentum of moving statistics to `MOMENTUM`, because random weights change fast.

    Returns the largest momentum before, or None if no layer had a larger momentum than `MOMENTUM`.
    """
    slow = [layer for layer in batch_norms(backbone) if layer.momentum > MOMENTUM]
    largest = max((layer.momentum for layer in slow), default=None)
    for layer in slow:
        layer.momentum = MOMENTUM
    return largest


@register("backbone", "identity")
class Identity(Backbone):
    """Backbone without a network, which passes on stored features `[B, vector_dims]`.

    Use it to train only the head on features that another network computed, for example with
    `--dataset="embeddings(...)"`.

    Args:
        vector_dims: Integer. Number of dimensions of the features. The training command sets it to the dimensions of
            the dataset. Required in Python.
        **kwargs: `name`, `trainable` and `dtype` of `keras.Model`.

    Raises:
        ValueError: If `vector_dims` is `None`.

    Example:

    ```python
    model = tfdml.Single(tfdml.backbones.Identity(vector_dims=64), embedding_size=16)
    model.predict(np.random.normal(size=(8, 64)), verbose=0).shape  # (8, 16)
    ```
    """

    # Stored features usually come from a pretrained network.
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


# The networks with drop path, and the name of the argument that sets its rate.
ARGUMENTS = {
    "DINOV2Backbone": "drop_path_rate",
    "DINOV3Backbone": "drop_path_rate",
    "MiTBackbone": "max_drop_path_rate",
    "MobileNetV5Backbone": "drop_path_rate",
    "SwinTransformerBackbone": "drop_path",
}
# keras-hub layers that need a fixed batch size and add noise instead of dropping branches.
REPLACED = {
    "keras_hub.src.models.dinov2.dinov2_layers": "DINOV2DropPath",
    "keras_hub.src.models.dinov3.dinov3_layers": "DINOV3DropPath",
}


def with_drop_path(network, rate):
    """Returns a keras-hub network with the same weights and another drop path rate."""
    kind = type(network).__name__
    if kind not in ARGUMENTS:
        raise ValueError(
            f"{kind} does not support drop_path. Expected one of {', '.join(sorted(ARGUMENTS))}. Remove drop_path."
        )
    with working_drop_path():
        changed = type(network).from_config({**network.get_config(), ARGUMENTS[kind]: rate})
    changed.set_weights(network.get_weights())
    return changed


@contextlib.contextmanager
def working_drop_path():
    """A context in which keras-hub networks use `DropPath` instead of layers that do not work."""
    loaded = [(sys.modules[module], name) for module, name in REPLACED.items() if module in sys.modules]
    before = [(module, name, vars(module)[name]) for module, name in loaded if name in vars(module)]
    try:
        for module, name, _ in before:
            # DINOv3 passes its rates as tensors.
            setattr(module, name, lambda rate=0.0, **kwargs: DropPath(float(rate), **kwargs))
        yield
    finally:
        for module, name, own in before:
            setattr(module, name, own)

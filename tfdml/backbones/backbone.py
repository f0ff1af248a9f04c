"""Base of all backbones of tfdml."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack

import keras

from tfdml.layers.frozen_batch_norm import batch_norms
from tfdml.layers.precision import layers_in
from tfdml.registry.annotations import ChannelOrder, ModelArguments, Tensor
from tfdml.registry.argument_checks import expects
from tfdml.registry.image_sizes import ImageSize


@expects()
class Backbone(keras.Model):
    """A functional graph from images `[B, H, W, 3]` to features, with named endpoints.

    Its input is `(pixels - mean) / std` of pixels from 0 to 255, with channels in the declared order. Pipelines and
    serving read this preprocessing from the backbone.

    Args:
        inputs: Keras input of the graph.
        endpoints: name to Keras tensor inside the graph, from shallow to deep; the last is the output.
        mean, std: the preprocessing, one number per channel, in the order of `channels`.
        channels: "rgb" or "bgr".
        image_size: size of the images that the network was designed for, in pixels: the side of a square, or (height,
            width).
        **kwargs: `name`, `trainable` and `dtype`, as of `keras.Model`.
    """

    # Keras drops all others without a word.
    passed_on = ("name", "trainable", "dtype")

    # Name to file of the pretrained weights that are included in tfdml.
    shipped_weights = {}
    # Whether it is made with pretrained weights.
    pretrained = False
    # Whether `load_imagenet` gets ImageNet weights, from a cache or by a download.
    downloads_imagenet = False
    # Defaults of methods for this backbone, where they differ from those of `method_default`.
    method_defaults = {}

    def __init__(
        self,
        inputs: Tensor,
        endpoints: Mapping[str, Tensor],
        *,
        mean: Sequence[float],
        std: Sequence[float],
        channels: ChannelOrder = "rgb",
        image_size: ImageSize,
        **kwargs: Unpack[ModelArguments],
    ):
        _check_precision(kwargs.pop("dtype", None))
        super().__init__(inputs=inputs, outputs=list(endpoints.values())[-1], **kwargs)
        self.endpoints = endpoints
        self.mean = tuple(mean)
        self.std = tuple(std)
        self.channels = channels
        self.image_size = image_size

    @property
    def has_batch_norm(self) -> bool:
        """Whether it has batch normalization, which can be frozen."""
        return bool(batch_norms(self))

    def method_default(self, what: Literal["branch", "attention_depth", "levels"]) -> Any:
        """Returns the default of a method's argument for this backbone.

        Args:
            what: `branch`, the endpoint where ensembles divide, by default the one in the middle; `attention_depth`,
                the number of blocks after the branch that attention copies, by default 1; or `levels`, the endpoints
                that `multilevel` embeds, from shallow to deep, by default the last three.
        """
        names = list(self.endpoints)
        if len(names) < 2:
            raise ValueError(
                f"{self.name} has one endpoint, {names[0]!r}; this method needs two or more. Give the backbone more "
                "endpoints, such as keras_applications(name='ResNet50', endpoints=('conv3_block4_out',))."
            )
        found = {"branch": names[(len(names) - 1) // 2], "attention_depth": 1, "levels": tuple(names[-3:])}
        return self.method_defaults.get(what, found[what])

    def load_imagenet(self) -> None:
        """Loads ImageNet weights; only for backbones with `downloads_imagenet`."""
        raise NotImplementedError(
            f"There are no ImageNet weights of {self.name} to download. Those of KerasApplication have some, such as "
            "KerasApplication('ResNet50'); keras_hub and keras_cv come with theirs; docs/backbones.md says which "
            "others can be converted."
        )

    def split_at(self, endpoint: str) -> tuple[keras.Model, keras.Model]:
        """Splits the backbone at an endpoint into two Keras models, trunk and tail, which share its layers."""
        cut = self._tensor(endpoint)
        trunk = keras.Model(self.input, cut, name=f"{self.name}_trunk")
        if cut is self.output:
            # Keras cannot create a model without layers.
            cut = keras.layers.Input(cut.shape[1:], dtype=cut.dtype)
            return trunk, keras.Model(cut, keras.layers.Identity()(cut), name=f"{self.name}_tail")
        try:
            return trunk, keras.Model(cut, self.output, name=f"{self.name}_tail")
        except ValueError:
            raise ValueError(f"{self.name} cannot be split at {endpoint!r}: another path leads around it.") from None

    def taps(self, endpoints: Sequence[str]) -> keras.Model:
        """Returns a Keras model from images to the list of the named endpoints, which shares the backbone's layers."""
        return keras.Model(self.input, [self._tensor(name) for name in endpoints], name=f"{self.name}_taps")

    def blocks_after(self, endpoint: str, count: int) -> keras.Model:
        """Returns a Keras model of the `count` blocks after an endpoint, which shares the backbone's layers.

        A block ends at an endpoint; poolings are not blocks.
        """
        start, names = self._tensor(endpoint), list(self.endpoints)
        blocks = [name for name in names[names.index(endpoint) + 1 :] if not name.startswith("pool")]
        if not 1 <= count <= len(blocks):
            raise ValueError(
                f"Expected from 1 to {len(blocks)} blocks after {endpoint!r} of {self.name}, received {count}."
            )
        return keras.Model(start, self._tensor(blocks[count - 1]), name=f"{self.name}_blocks")

    def _tensor(self, endpoint):
        if endpoint not in self.endpoints:
            raise ValueError(f"Unknown endpoint {endpoint!r} of {self.name}. Known: {', '.join(self.endpoints)}.")
        return self.endpoints[endpoint]

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

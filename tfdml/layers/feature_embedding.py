"""Base class of the layers that compute embeddings from features."""

import dataclasses
from typing import Annotated, Unpack

import keras
import numpy as np
from keras import ops

from tfdml.layers.pooled_features import PooledFeatures
from tfdml.registry.arguments import Count, LayerArguments, Tensor, instance, optional
from tfdml.registry.fields import Declared

FeatureLayer = Annotated[keras.layers.Layer | None, optional(instance(keras.Layer, "a Keras layer"))]


@dataclasses.dataclass(frozen=True)
class LinearPart:
    """A linear layer of an embedding.

    Args:
        before: the layer whose output is its input.
        kernel, bias: its variables.
        components: which principal component each dimension begins as.
    """

    before: keras.layers.Layer
    kernel: keras.Variable
    bias: keras.Variable
    components: np.ndarray


class FeatureEmbedding(Declared, keras.layers.Layer):
    """Applies a layer to features before its own linear layer.

    Args:
        embedding_size: number of dimensions of the embedding.
        features: Keras layer from features to `[B, n]`. Default: `PooledFeatures()`, which averages over positions.
    """

    def __init__(self, embedding_size: Count, features: FeatureLayer = None, **kwargs: Unpack[LayerArguments]):
        super().__init__(**kwargs)
        self.embedding_size = embedding_size
        self.features = PooledFeatures(dtype=self.dtype_policy, name="features") if features is None else features

    def build_features(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Builds the layer `features`, and returns the shape of its output."""
        # A loaded layer is already built.
        if not self.features.built:
            self.features.build(input_shape)
        return self.features.compute_output_shape(input_shape)

    def linear_parts(self) -> list[LinearPart]:
        """The linear layers, to begin with principal components of their inputs."""
        raise NotImplementedError(f"{type(self).__name__} needs the method linear_parts().")

    def linear_places(self, features: Tensor, kernel: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """Returns what each position of `[B, h, w, c]` contributes to a linear layer behind `features`, and the rest.

        Returns:
            `[B, h, w, D]` and `[B, D]`: the sum of all over positions, and the rest, are the output in inference.
        """
        parts, rest = pooled_places(self.features, features)
        kernel, bias = ops.convert_to_tensor(kernel), ops.convert_to_tensor(bias)
        return ops.matmul(parts, kernel), ops.matmul(rest, kernel) + bias

    def get_config(self):
        features = keras.saving.serialize_keras_object(self.features)
        return {**super().get_config(), "embedding_size": self.embedding_size, "features": features}

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "features": keras.saving.deserialize_keras_object(config["features"])})


def pooled_places(layer: keras.layers.Layer, features: Tensor) -> tuple[Tensor, Tensor]:
    """Returns what each position of `[B, h, w, c]` contributes to a layer that pools, and the rest.

    Returns:
        `[B, h, w, c]` and `[B, c]`, see `PooledFeatures.places`.
    """
    if not isinstance(layer, PooledFeatures):
        raise ValueError(
            "Expected a head that pools features, and does nothing else but a norm, to tell positions apart; "
            f"received {type(layer).__name__}."
        )
    parts, offset = layer.places(features)
    return parts, ops.ones((parts.shape[0], 1)) * offset


def at_unit_length(parts, rest, wanted=True):
    """Divides parts `[B, h, w, K, d]` and the rest `[B, K, d]` by the lengths of their sums, if that is wanted."""
    if not wanted:
        return parts, rest
    total = ops.sum(parts, axis=(1, 2)) + rest
    lengths = ops.maximum(ops.sqrt(ops.sum(total * total, axis=-1, keepdims=True)), keras.backend.epsilon())
    return parts / lengths[:, None, None], rest / lengths

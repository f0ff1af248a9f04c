"""Layers that compute embeddings from features: a single one, one per level, or one per learner."""

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Unpack

import keras
import numpy as np
from keras import ops

from tfdml.functional.checks import at_least_float32
from tfdml.functional.distances import unit_length
from tfdml.layers.pooling import CeilAveragePooling, PooledFeatures
from tfdml.registry.arguments import Count, LayerArguments, Tensor, boolean, instance, optional, several
from tfdml.registry.fields import Declared

FeatureLayer = Annotated[keras.layers.Layer | None, optional(instance(keras.Layer, "a Keras layer"))]


@dataclasses.dataclass(frozen=True)
class LinearPart:
    """A linear layer of an embedding.

    Args:
        before: layer that computes the input.
        kernel, bias: variables of the linear layer.
        components: index of the principal component that each dimension is initialized with.
    """

    before: keras.layers.Layer
    kernel: keras.Variable
    bias: keras.Variable
    components: np.ndarray


class FeatureEmbedding(Declared, keras.layers.Layer):
    """Base of embedding layers that apply a layer `features` before their own linear layer.

    Args:
        embedding_size: Integer. Number of dimensions of the embedding.
        features: Keras layer from features to `[B, n]`, or `None`. If `None`, `PooledFeatures()`, which averages over
            positions. Defaults to `None`.
    """

    def __init__(self, embedding_size: Count, features: FeatureLayer = None, **kwargs: Unpack[LayerArguments]):
        super().__init__(**kwargs)
        self.embedding_size = embedding_size
        self.features = PooledFeatures(dtype=self.dtype_policy, name="features") if features is None else features

    def build_features(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Builds the layer `features` and returns the shape of its output."""
        # A loaded layer is already built.
        if not self.features.built:
            self.features.build(input_shape)
        return self.features.compute_output_shape(input_shape)

    def linear_parts(self) -> list[LinearPart]:
        """Returns the linear layers that can be initialized with principal components of their inputs."""
        raise NotImplementedError(f"{type(self).__name__} must implement linear_parts().")

    def linear_places(self, features: Tensor, kernel: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """Returns what each position of `[B, h, w, c]` contributes to a linear layer after `features`, and the rest.

        The shapes are `[B, h, w, D]` and `[B, D]`. The sum over positions plus the rest is the output in inference.
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
    """Returns what each position contributes to a pooling layer, and the rest: `[B, h, w, c]` and `[B, c]`.

    See `PooledFeatures.places`.
    """
    if not isinstance(layer, PooledFeatures):
        raise ValueError(
            "The contributions of single positions are only known for a head with PooledFeatures, which pools features "
            f"and applies a norm. Received: {type(layer).__name__}."
        )
    parts, offset = layer.places(features)
    return parts, ops.ones((parts.shape[0], 1)) * offset


def at_unit_length(parts, rest, wanted=True):
    """Divides parts `[B, h, w, K, d]` and the rest `[B, K, d]` by the lengths of their sums, if `wanted`."""
    if not wanted:
        return parts, rest
    total = ops.sum(parts, axis=(1, 2)) + rest
    lengths = ops.maximum(ops.sqrt(ops.sum(total * total, axis=-1, keepdims=True)), keras.backend.epsilon())
    return parts / lengths[:, None, None], rest / lengths


@keras.saving.register_keras_serializable(package="tfdml")
class EmbeddingHead(FeatureEmbedding):
    """Computes an embedding: pools features, applies a linear layer, and L2-normalizes the result.

    Use it as the last layer behind a backbone. Input is `[B, ..., c]`, for example a feature map `[B, h, w, c]`.

    Args:
        embedding_size: Integer. Number of dimensions of the embedding.
        features: Keras layer that pools, or `None`. If `None`, `PooledFeatures()`, which averages over positions.
            Defaults to `None`.
        normalize: Boolean. Whether to L2-normalize embeddings. Defaults to `True`.
        **kwargs: `name`, `dtype` and `trainable` of a Keras layer.

    Returns:
        `[B, embedding_size]` in float32, or in float64 with such a dtype policy.

    Example:

    ```python
    features = np.ones((2, 7, 7, 32), "float32")
    tfdml.layers.EmbeddingHead(8)(features).shape  # (2, 8)
    ```
    """

    def __init__(
        self,
        embedding_size: Count,
        features: FeatureLayer = None,
        normalize: bool = True,
        **kwargs: Unpack[LayerArguments],
    ):
        super().__init__(embedding_size, features, **kwargs)
        self.normalize = normalize
        self.projection = keras.layers.Dense(embedding_size, dtype=self.dtype_policy, name="projection")

    def build(self, input_shape):
        self.projection.build(self.build_features(input_shape))

    def call(self, features, training=False):
        projected = at_least_float32(self.projection(self.features(features, training=training)))
        return unit_length(projected) if self.normalize else projected

    def linear_parts(self) -> list[LinearPart]:
        linear = self.projection
        return [LinearPart(self.features, linear.kernel, linear.bias, np.arange(self.embedding_size))]

    def places(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Returns what positions of `[B, h, w, c]` contribute to the embedding, `[B, h, w, 1, d]`, and the rest."""
        parts, rest = self.linear_places(features, self.projection.kernel, self.projection.bias)
        return at_unit_length(parts[:, :, :, None], rest[:, None], self.normalize)

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.embedding_size)

    def get_config(self):
        return {**super().get_config(), "normalize": self.normalize}


@keras.saving.register_keras_serializable(package="tfdml")
class MultilevelEmbedding(FeatureEmbedding):
    """Computes one part of an embedding at each of several feature levels, from a list of feature maps.

    These are the low, middle and high embeddings of Ranked List Loss (Sec. 4.1.3), at the depths of GoogLeNet V2's
    three classifiers. As in the paper, auxiliary levels have a 5 × 5 pooling with stride 3, a 1 × 1 convolution and a
    hidden layer, the latter two with batch norm. Each level ends with its own layer `features`, a linear layer and
    L2 normalization. For levels that are not auxiliary, `features` pools over all positions.

    Hidden layers read every position, so all images must have the same size. `tfdml.methods.Multilevel` creates this
    layer for you.

    Args:
        embedding_size: Integer. Number of dimensions of all levels together. It must be a multiple of the number of
            levels.
        reduced: Integer. Number of channels after the 1 × 1 convolution of auxiliary levels. Defaults to `128`.
        hidden: Integer. Number of units of the hidden layer of auxiliary levels. Defaults to `1024`.
        features: Keras layer before the linear layer of the last level, or `None`. The other levels have copies of it.
            If `None`, `PooledFeatures()`, which averages over positions. Defaults to `None`.
        auxiliary: Sequence of booleans, one per level, or `None`. Whether each level is auxiliary. If `None`, all
            levels except the last are. Defaults to `None`.
        **kwargs: `name`, `dtype` and `trainable` of a Keras layer.

    Returns:
        `[B, levels, embedding_size / levels]` in float32, or in float64 with such a dtype policy.

    Raises:
        ValueError: If `embedding_size` is not a multiple of the number of levels, `auxiliary` does not have one value
            per level, or the images of an auxiliary level have no fixed size.

    Example:

    ```python
    middle, high = np.ones((2, 14, 14, 16), "float32"), np.ones((2, 7, 7, 32), "float32")
    tfdml.layers.MultilevelEmbedding(8, auxiliary=(False, False))([middle, high]).shape  # (2, 2, 4)
    ```
    """

    def __init__(
        self,
        embedding_size: Count,
        reduced: Count = 128,
        hidden: Count = 1024,
        features: FeatureLayer = None,
        auxiliary: Annotated[Sequence[bool] | None, optional(several(boolean()))] = None,
        **kwargs: Unpack[LayerArguments],
    ):
        super().__init__(embedding_size, features, **kwargs)
        self.reduced, self.hidden, self.auxiliary = reduced, hidden, auxiliary

    def build(self, input_shape):
        levels = len(input_shape)
        if self.embedding_size % levels:
            raise ValueError(f"An embedding of size {self.embedding_size} cannot be split into {levels} equal levels.")
        auxiliary = (True,) * (levels - 1) + (False,) if self.auxiliary is None else self.auxiliary
        if len(auxiliary) != levels:
            raise ValueError(f"auxiliary must have {levels} values, one per level. Received: auxiliary={auxiliary}.")
        size = self.embedding_size // levels
        self.branches = [
            self._branch(number, auxiliary[number], shape, last=number == levels - 1)
            for number, shape in enumerate(input_shape)
        ]
        self.projections = [
            keras.layers.Dense(size, dtype=self.dtype_policy, name=f"level{number}") for number in range(levels)
        ]
        for branch, projection, shape in zip(self.branches, self.projections, input_shape, strict=True):
            projection.build(branch.compute_output_shape(shape))

    def call(self, levels, training=False):
        learners = [
            at_least_float32(projection(branch(features, training=training)))
            for features, branch, projection in zip(levels, self.branches, self.projections, strict=True)
        ]
        return unit_length(ops.stack(learners, axis=1))

    def linear_parts(self) -> list[LinearPart]:
        pairs = zip(self.branches, self.projections, strict=True)
        return [LinearPart(branch, each.kernel, each.bias, np.arange(each.units)) for branch, each in pairs]

    def compute_output_shape(self, input_shape):
        return (input_shape[0][0], len(input_shape), self.embedding_size // len(input_shape))

    def get_config(self):
        own = {"reduced": self.reduced, "hidden": self.hidden, "auxiliary": self.auxiliary}
        return {**super().get_config(), **own}

    def _branch(self, number, auxiliary, shape, last):
        features = self.features
        if not last:
            config = {**features.get_config(), "name": f"level{number}_last_features"}
            features = type(features).from_config(config)
        if auxiliary:
            return self._auxiliary(number, shape, features)
        # A loaded layer is already built.
        if not features.built:
            features.build(shape)
        return features

    def _auxiliary(self, number, shape, features):
        """The layers of an auxiliary level, which end with its layer `features`."""
        if None in shape[1:]:
            raise ValueError(
                "The hidden layer of an auxiliary level reads every position, so images must have a fixed size. "
                f"Received: features of shape {shape}."
            )
        policy, side = {"dtype": self.dtype_policy}, min(5, *shape[1:3])
        layers = [
            keras.Input(shape[1:]),
            CeilAveragePooling(side, min(3, side), **policy),
            keras.layers.Conv2D(self.reduced, 1, use_bias=False, **policy),
            keras.layers.BatchNormalization(momentum=0.9, **policy),
            keras.layers.ReLU(**policy),
            keras.layers.Flatten(**policy),
            keras.layers.Dense(self.hidden, use_bias=False, **policy),
            keras.layers.BatchNormalization(momentum=0.9, **policy),
            keras.layers.ReLU(**policy),
            features,
        ]
        return keras.Sequential(layers, name=f"level{number}_features")


def size_of_slice(embedding_size, learners):
    """Returns the number of dimensions of each learner."""
    if learners < 1 or embedding_size < 1 or embedding_size % learners:
        raise ValueError(f"An embedding of size {embedding_size} cannot be split into {learners} equal learners.")
    if embedding_size == learners > 1:
        raise ValueError(
            f"An embedding of size {embedding_size} split into {learners} learners has one dimension per learner. "
            "Normalized to unit length, that is 1 or -1, so it learns nothing. Use fewer learners or a larger "
            "embedding_size."
        )
    return embedding_size // learners


def sliced(initializer, count):
    """Returns an initializer that draws each of `count` slices of columns like the matrix of a separate layer."""

    def draw(shape, dtype=None):
        slice_shape = (shape[0], shape[1] // count)
        return ops.concatenate([initializer()(slice_shape, dtype=dtype) for _ in range(count)], axis=1)

    return draw


@keras.saving.register_keras_serializable(package="tfdml")
class SplitEmbedding(FeatureEmbedding):
    """Computes an embedding that is split into K learners: pooled features, then a linear layer with K slices.

    These are the learners of Divide and Conquer (Sec. 3.2). Together, the slices have the parameters of one layer.
    Each slice is initialized like a separate layer (Xavier normal), and its embeddings are L2-normalized.
    `tfdml.methods.DivideAndConquer` creates this layer for you.

    Args:
        embedding_size: Integer. Number of dimensions of all learners together.
        learners: Integer. Number K of slices, a divisor of `embedding_size`.
        features: Keras layer that pools, or `None`. If `None`, `PooledFeatures()`, which averages over positions.
            Defaults to `None`.
        **kwargs: `name`, `dtype` and `trainable` of a Keras layer.

    Returns:
        `[B, K, embedding_size / K]` in float32, or in float64 with such a dtype policy.

    Raises:
        ValueError: If `embedding_size` is not a multiple of `learners`, or a learner would have a single dimension.

    Example:

    ```python
    features = np.ones((2, 7, 7, 32), "float32")
    tfdml.layers.SplitEmbedding(embedding_size=8, learners=4)(features).shape  # (2, 4, 2)
    ```
    """

    def __init__(
        self,
        embedding_size: Count,
        learners: Count,
        features: FeatureLayer = None,
        **kwargs: Unpack[LayerArguments],
    ):
        super().__init__(embedding_size, features, **kwargs)
        self.size_of_each = size_of_slice(embedding_size, learners)
        self.learners = learners

    def build(self, input_shape):
        shape = (self.build_features(input_shape)[-1], self.embedding_size)
        initializer = sliced(keras.initializers.GlorotNormal, self.learners)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer=initializer)
        self.bias = self.add_weight(name="bias", shape=shape[1:], initializer="zeros")

    def call(self, features, training=False):
        features = ops.cast(self.features(features, training=training), self.compute_dtype)
        projected = ops.matmul(features, self.kernel) + self.bias
        learners = ops.reshape(projected, (-1, self.learners, self.size_of_each))
        return unit_length(at_least_float32(learners))

    def linear_parts(self) -> list[LinearPart]:
        # Components are dealt out to the slices in turn, so that each slice has large ones.
        components = np.arange(self.embedding_size).reshape(self.size_of_each, self.learners).T.ravel()
        return [LinearPart(self.features, self.kernel, self.bias, components)]

    def places(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Returns what each position of `[B, h, w, c]` contributes to the learners, `[B, h, w, K, d]`, and the rest."""
        parts, rest = self.linear_places(features, self.kernel, self.bias)
        slices = (self.learners, self.size_of_each)
        return at_unit_length(ops.reshape(parts, (*parts.shape[:3], *slices)), ops.reshape(rest, (-1, *slices)))

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.learners, self.size_of_each)

    def get_config(self):
        return {**super().get_config(), "learners": self.learners}

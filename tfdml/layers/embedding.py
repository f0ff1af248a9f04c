"""Layers that compute embeddings from features: one, one at each depth, or one for each learner."""

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

        These are `[B, h, w, D]` and `[B, D]`: the sum of all over positions, and the rest, are the output in inference.
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
    """Returns what each position contributes to a layer that pools, and the rest: `[B, h, w, c]` and `[B, c]`.

    See `PooledFeatures.places`.
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


@keras.saving.register_keras_serializable(package="tfdml")
class EmbeddingHead(FeatureEmbedding):
    """Pools features, and applies a linear layer, float32 at unit length: `[B, ..., c]` to `[B, embedding_size]`.

    Args:
        embedding_size: dimensions of the embedding.
        features: Keras layer that pools. Default: `PooledFeatures()`, the average over positions.
        normalize: whether embeddings are brought to unit length.
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
    """Computes one learner at each of several depths: feature maps to `[B, levels, embedding_size / levels]`.

    These are the low, middle and high embeddings of Ranked List Loss (Sec. 4.1.3), at the depths of the three
    classifiers of GoogLeNet V2. As there, auxiliary levels have a 5 × 5 pooling with stride 3, a 1 × 1 convolution and
    a hidden layer, the latter two with batch norm. Each level then has a layer `features` of its own, which pools
    features over all positions where the level is not auxiliary, a linear layer, and normalization in float32. Hidden
    layers read every position, so all images must have the same size.

    Args:
        embedding_size: number of dimensions of all levels together.
        reduced: number of channels after the 1 × 1 convolution of auxiliary levels.
        hidden: number of units of their hidden layer.
        features: Keras layer of the last level before its linear layer, of which the other levels have copies.
            Default: `PooledFeatures()`, the average over positions.
        auxiliary: for each level, whether it is auxiliary; None: all but the last are.
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
            raise ValueError(f"Expected auxiliary to have {levels} values, one for each level; received {auxiliary}.")
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
                f"A level's hidden layer reads every position, so images need a fixed size; received features {shape}."
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
            f"{learners} learners of {embedding_size} dimensions have one each, which is 1 or -1 at unit length and "
            "learns nothing. Take fewer learners, or a larger embedding_size."
        )
    return embedding_size // learners


def sliced(initializer, count):
    """Initializer of a matrix that draws each of `count` slices of columns like the matrix of a separate layer."""

    def draw(shape, dtype=None):
        slice_shape = (shape[0], shape[1] // count)
        return ops.concatenate([initializer()(slice_shape, dtype=dtype) for _ in range(count)], axis=1)

    return draw


@keras.saving.register_keras_serializable(package="tfdml")
class SplitEmbedding(FeatureEmbedding):
    """Pools features and applies a linear layer split into K slices: `[B, ..., c]` to `[B, K, embedding_size / K]`.

    These are the learners of Divide and Conquer (Sec. 3.2). Together the slices have the parameters of one layer. Each
    is initialized like a separate layer (Xavier normal), and its embeddings are normalized in float32.

    Args:
        embedding_size: number of dimensions of all learners together.
        learners: number K of slices, a divisor of `embedding_size`.
        features: Keras layer that pools. Default: `PooledFeatures()`, the average over positions.
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
        # Dealt out to the slices in turns.
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

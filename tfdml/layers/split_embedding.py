"""Head that computes several learners' embeddings with one linear layer."""

from typing import Unpack

import keras
import numpy as np
from keras import ops

from tfdml.functional.checks import at_least_float32
from tfdml.functional.distances import unit_length
from tfdml.layers.feature_embedding import FeatureEmbedding, FeatureLayer, LinearPart, at_unit_length
from tfdml.layers.sliced import size_of_slice, sliced
from tfdml.registry.arguments import Count, LayerArguments, Tensor


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

"""Head that computes one embedding from a backbone's features."""

from typing import Unpack

import keras
import numpy as np

from tfdml.functional.checks import at_least_float32
from tfdml.functional.distances import unit_length
from tfdml.layers.feature_embedding import FeatureEmbedding, FeatureLayer, LinearPart, at_unit_length
from tfdml.registry.arguments import Count, LayerArguments, Tensor


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

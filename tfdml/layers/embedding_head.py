"""Head that computes one embedding from a backbone's features."""

import keras

from tfdml.arguments import integer
from tfdml.functional.checks import at_least_float32
from tfdml.functional.distances import unit_length
from tfdml.layers.pooled_features import FEATURES, PooledFeatures
from tfdml.registry import register


@register("layer", "embedding_head", embedding_size=integer(1), **FEATURES)
class EmbeddingHead(keras.layers.Layer):
    """Pools features, applies a linear layer, and normalizes in float32: `[B, ..., c]` to `[B, embedding_size]`.

    Args:
        embedding_size: dimensions of the embedding.
        pooling, norm, dropout: see `PooledFeatures`.
    """

    def __init__(self, embedding_size, pooling="avg", norm="none", dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.embedding_size = embedding_size
        self.features = PooledFeatures(pooling, norm, dropout, dtype=self.dtype_policy, name="features")
        self.projection = keras.layers.Dense(embedding_size, dtype=self.dtype_policy, name="projection")

    def build(self, input_shape):
        self.features.build(input_shape)
        self.projection.build((None, input_shape[-1]))

    def call(self, features, training=False):
        projected = self.projection(self.features(features, training=training))
        return unit_length(at_least_float32(projected))

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.embedding_size)

    def get_config(self):
        features = self.features
        own = {"pooling": features.pooling.kind, "norm": features.norm, "dropout": features.dropout.rate}
        return {**super().get_config(), "embedding_size": self.embedding_size, **own}

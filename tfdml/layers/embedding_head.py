"""Head that computes one embedding from a backbone's features."""

import keras

from tfdml.argument_checks import expects
from tfdml.functional.checks import at_least_float32
from tfdml.functional.distances import unit_length
from tfdml.layers.feature_embedding import EMBEDDING, FeatureEmbedding


@keras.saving.register_keras_serializable(package="tfdml")
@expects(**EMBEDDING)
class EmbeddingHead(FeatureEmbedding):
    """Pools features, applies a linear layer, and normalizes in float32: `[B, ..., c]` to `[B, embedding_size]`.

    Args:
        embedding_size: dimensions of the embedding.
        features: Keras layer that pools. Default: `PooledFeatures()`, the average over positions.
    """

    def __init__(self, embedding_size, features=None, **kwargs):
        super().__init__(embedding_size, features, **kwargs)
        self.projection = keras.layers.Dense(embedding_size, dtype=self.dtype_policy, name="projection")

    def build(self, input_shape):
        self.projection.build(self.build_features(input_shape))

    def call(self, features, training=False):
        projected = self.projection(self.features(features, training=training))
        return unit_length(at_least_float32(projected))

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.embedding_size)

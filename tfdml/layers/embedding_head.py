"""From a backbone's features to one embedding."""

import keras
from keras import ops

from tfdml.registry import register


@register("layer", "embedding_head")
class EmbeddingHead(keras.layers.Layer):
    """Average over positions, dropout, one linear layer, unit length in float32.

    Args:
        embedding_size: dimensions of the embedding.
        dropout: share of features that training drops.
    """

    def __init__(self, embedding_size, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        if embedding_size < 1:
            raise ValueError(f"Expected an embedding size of 1 or more, received {embedding_size}.")
        self.embedding_size = embedding_size
        self.dropout = keras.layers.Dropout(dropout)
        self.projection = keras.layers.Dense(embedding_size, name="projection")

    def build(self, input_shape):
        if len(input_shape) not in (2, 3, 4):
            raise ValueError(
                "Expected features of shape [B, h, w, c], [B, tokens, c] or [B, c] from the backbone, "
                f"received shape {tuple(input_shape)}."
            )
        self.projection.build((None, input_shape[-1]))
        super().build(input_shape)

    def call(self, features, training=False):
        positions = tuple(range(1, len(features.shape) - 1))
        if positions:
            features = ops.mean(features, axis=positions)
        projected = self.projection(self.dropout(features, training=training))
        return ops.normalize(ops.cast(projected, "float32"), axis=-1)

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.embedding_size)

    def get_config(self):
        return {**super().get_config(), "embedding_size": self.embedding_size, "dropout": self.dropout.rate}

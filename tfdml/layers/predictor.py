"""The predictor of SimSiam."""

import keras
from keras import ops

from tfdml.functional.checks import at_least_float32
from tfdml.layers.linear_layers import LinearLayers
from tfdml.registry.arguments import Count


@keras.saving.register_keras_serializable(package="tfdml")
class Predictor(LinearLayers):
    """Predicts the embedding of another view, by a hidden layer: predictions and embeddings, `[B, 2, d]`.

    Example: `taken = Predictor()(embeddings)`.

    Args:
        hidden: units of the hidden layer; None: a quarter of d.
    """

    hidden: Count | None = None

    def layer_sizes(self, dim):
        return (self.hidden or max(dim // 4, 1), dim)

    def call(self, embeddings, labels=None):
        del labels
        embeddings = at_least_float32(embeddings)
        return ops.stack([self.project(embeddings), embeddings], axis=1)

    def compute_output_shape(self, embeddings_shape, labels_shape=None):
        return (embeddings_shape[0], 2, embeddings_shape[1])

"""A layer that draws the random numbers of a loss."""

import keras
from keras import ops

from tfdml.functional.checks import at_least_float32
from tfdml.layers.loss_layer import LossLayer
from tfdml.registry.arguments import Count, Seed


@keras.saving.register_keras_serializable(package="tfdml")
class MixingShares(LossLayer):
    """Appends random numbers from 0 to 1 to embeddings, with which `tfdml.losses.RecallAtK` mixes similarities.

    `RecallAtK(mixtures=2).make_layer()` creates this layer. A variable of the layer counts the draws.

    Args:
        count: Integer. How many numbers each row receives. Defaults to `1`.
        seed: Integer or `None`. Seed of the numbers. If `None`, Keras' global seed. Defaults to `None`.
        activity_regularizer, trainable, dtype, autocast, name: see `LossLayer`.

    Call arguments:
        embeddings: `[B, d]`.
        labels: Not used.

    Returns:
        `[B, 1, d + count]`. The axis of size 1 distinguishes the output from plain embeddings.

    Example:

    ```python
    tfdml.layers.MixingShares(2)(np.ones((4, 8), "float32")).shape  # (4, 1, 10)
    ```
    """

    count: Count = 1
    seed: Seed | None = None

    def build(self, embeddings_shape, labels_shape=None):
        self.draws = keras.random.SeedGenerator(self.seed)

    def call(self, embeddings, labels=None):
        del labels
        embeddings = at_least_float32(embeddings)
        shape = (ops.shape(embeddings)[0], self.count)
        shares = keras.random.uniform(shape, dtype=embeddings.dtype, seed=self.draws)
        return ops.concatenate([embeddings, shares], axis=1)[:, None]

    def compute_output_shape(self, embeddings_shape, labels_shape=None):
        return (embeddings_shape[0], 1, embeddings_shape[1] + self.count)

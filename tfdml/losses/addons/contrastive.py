"""Contrastive loss of pairs given as distances, as in TensorFlow Addons."""

from dataclasses import KW_ONLY

import keras
from keras import ops

from tfdml.functional.checks import at_least_float32
from tfdml.losses.addons.number import Number
from tfdml.losses.embedding_loss import EmbeddingLoss, Reduction


@keras.saving.register_keras_serializable(package="tfdml")
class ContrastiveLoss(EmbeddingLoss):
    """Contrastive loss of pairs given as distances, in place of `tfa.losses.ContrastiveLoss`.

    A pair costs `y d^2 + (1 - y) max(0, margin - d)^2`. On embeddings and class numbers `tfdml.losses.Contrastive`
    takes all pairs of the batch instead.

    Args:
        margin: distance from which a pair of two classes costs nothing.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        y_true: `[B]`, 1 for a pair of one class, 0 for one of two classes.
        y_pred: `[B]` distances between the two of each pair.

    Returns:
        `[B]`, one value a pair.
    """

    margin: Number = 1.0
    _: KW_ONLY
    reduction: Reduction | None = "sum_over_batch_size"
    name: str | None = "contrastive_loss"

    # Labels are those of pairs, and no class numbers.
    needs_pairs = False
    numbers_anew = False

    def check_input(self, y_true, y_pred):
        return ops.convert_to_tensor(y_true), ops.convert_to_tensor(y_pred)

    def call(self, y_true, y_pred):
        distance = at_least_float32(_flat(y_pred, "distances"))
        same = ops.cast(_flat(y_true, "labels, 1 or 0,"), distance.dtype)
        return same * ops.square(distance) + (1.0 - same) * ops.square(ops.maximum(self.margin - distance, 0.0))


def _flat(values, name):
    values = ops.convert_to_tensor(values)
    if len(values.shape) == 2 and values.shape[1] == 1:
        values = ops.squeeze(values, axis=1)
    if len(values.shape) != 1:
        raise ValueError(f"Expected {name} of shape [batch], one a pair, received shape {tuple(values.shape)}.")
    return values

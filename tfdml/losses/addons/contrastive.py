"""Contrastive loss of pairs given as distances, as in TensorFlow Addons."""

import keras
from keras import ops

from tfdml.functional.checks import at_least_float32
from tfdml.losses.embedding_loss import EmbeddingLoss


def contrastive_loss(y_true, y_pred, margin=1.0):
    """Contrastive loss of each pair: `y d^2 + (1 - y) max(0, margin - d)^2`.

    Args:
        y_true: `[B]`, 1 for a pair of one class, 0 for one of two classes.
        y_pred: `[B]` distances between the two of each pair.
        margin: distance from which a pair of two classes costs nothing.

    Returns:
        `[B]`, one value a pair.
    """
    distance = at_least_float32(_flat(y_pred, "distances"))
    same = ops.cast(_flat(y_true, "labels, 1 or 0,"), distance.dtype)
    return same * ops.square(distance) + (1.0 - same) * ops.square(ops.maximum(margin - distance, 0.0))


def _flat(values, name):
    values = ops.convert_to_tensor(values)
    if len(values.shape) == 2 and values.shape[1] == 1:
        values = ops.squeeze(values, axis=1)
    if len(values.shape) != 1:
        raise ValueError(f"Expected {name} of shape [batch], one a pair, received shape {tuple(values.shape)}.")
    return values


@keras.saving.register_keras_serializable(package="tfdml")
class ContrastiveLoss(EmbeddingLoss):
    """Contrastive loss of pairs given as distances, in place of `tfa.losses.ContrastiveLoss`.

    On embeddings and class numbers `tfdml.losses.Contrastive` takes all pairs of the batch instead.

    Args:
        margin: see `contrastive_loss`.
        reduction, name: see `EmbeddingLoss`.
    """

    # Labels are those of pairs, and no class numbers.
    needs_pairs = False
    numbers_anew = False

    def __init__(self, margin=1.0, reduction="sum_over_batch_size", name="contrastive_loss", **kwargs):
        super().__init__(reduction=reduction, name=name, **kwargs)
        self.margin = margin

    def check_input(self, y_true, y_pred):
        return ops.convert_to_tensor(y_true), ops.convert_to_tensor(y_pred)

    def call(self, y_true, y_pred):
        return contrastive_loss(y_true, y_pred, margin=self.margin)

    def get_config(self):
        return {**super().get_config(), "margin": self.margin}

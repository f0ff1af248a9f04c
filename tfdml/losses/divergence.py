"""Divergence loss."""

import keras
from keras import ops

from tfdml.functional.statistics import check_learners, divergence_loss
from tfdml.losses.embedding_loss import EmbeddingLoss


@keras.saving.register_keras_serializable(package="tfdml")
class Divergence(EmbeddingLoss):
    """Divergence loss: drives apart what different learners make of the same image.

    No metric loss on its own, since it knows no classes; a method adds it to one. Takes `(labels, learners [B, K, d])`.

    Args:
        margin: squared distance from which the loss of two learners is 0.
        reduction, name, dtype: see `EmbeddingLoss`.
    """

    margin: float = 1.0

    needs_pairs = False
    numbers_anew = False

    def check_input(self, labels, learners):
        return ops.convert_to_tensor(labels), check_learners(learners)

    def call(self, labels, learners):
        del labels
        return divergence_loss(learners, margin=self.margin)

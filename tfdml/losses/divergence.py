"""Divergence loss."""

import keras

from tfdml.functional.divergence import check_learners, divergence_loss
from tfdml.losses.embedding_loss import EmbeddingLoss


@keras.saving.register_keras_serializable(package="tfdml")
class Divergence(EmbeddingLoss):
    """Divergence loss: drives apart what different learners make of the same image.

    No metric loss on its own, since it knows no classes; a method adds it to one. Takes `(labels, learners [B, K, d])`.
    """

    function = staticmethod(divergence_loss)

    def __call__(self, labels, learners, sample_weight=None):
        # Not the parent's, which takes a single learner.
        return keras.losses.Loss.__call__(self, labels, check_learners(learners), sample_weight=sample_weight)

    def call(self, labels, learners):
        del labels
        return self.function(learners, **self.function_arguments())

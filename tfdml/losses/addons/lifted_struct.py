"""Lifted structure loss, as in TensorFlow Addons."""

import keras
from keras import ops

from tfdml.losses.embedding_loss import EmbeddingLoss
from tfdml.losses.lifted_structure import lifted_structure_loss


def lifted_struct_loss(labels, embeddings, margin=1.0):
    """The mean of `tfdml.losses.lifted_structure_loss` in its smooth form, a scalar.

    Args:
        labels: `[B]` class numbers.
        embeddings: `[B, d]`, better not brought to unit length.
        margin: by how much negatives shall be farther.
    """
    return ops.mean(lifted_structure_loss(labels, embeddings, margin=margin))


@keras.saving.register_keras_serializable(package="tfdml")
class LiftedStructLoss(EmbeddingLoss):
    """Lifted structure loss, in place of `tfa.losses.LiftedStructLoss`; 0 where that had no positive pair to divide by.

    Args:
        margin: see `lifted_struct_loss`.
        name, **kwargs: see `EmbeddingLoss`.
    """

    def __init__(self, margin=1.0, name=None, **kwargs):
        super().__init__(name=name, **kwargs)
        self.margin = margin

    def call(self, labels, embeddings):
        return lifted_structure_loss(labels, embeddings, margin=self.margin)

    def get_config(self):
        return {**super().get_config(), "margin": self.margin}

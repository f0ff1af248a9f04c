"""Lifted structure loss, as in TensorFlow Addons."""

from dataclasses import KW_ONLY

import keras

from tfdml.losses.addons.number import Number
from tfdml.losses.embedding_loss import EmbeddingLoss
from tfdml.losses.lifted_structure import LiftedStructure


@keras.saving.register_keras_serializable(package="tfdml")
class LiftedStructLoss(EmbeddingLoss):
    """Lifted structure loss, in place of `tfa.losses.LiftedStructLoss`; 0 where that had no positive pair to divide by.

    It is `tfdml.losses.LiftedStructure` in its smooth form.

    Args:
        margin: by how much negatives shall be farther.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` class numbers.
        embeddings: `[B, d]`, better not brought to unit length.
    """

    margin: Number = 1.0
    _: KW_ONLY
    name: str | None = None

    def call(self, labels, embeddings):
        return LiftedStructure(margin=float(self.margin)).call(labels, embeddings)

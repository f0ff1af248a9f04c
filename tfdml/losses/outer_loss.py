"""`OuterLoss`: a loss that computes with another one."""

import keras

from tfdml.losses.embedding_loss import EmbeddingLoss
from tfdml.registry.loss_hooks import hooks_of


class OuterLoss(EmbeddingLoss):
    """Base class of losses with an argument `loss`, one on pairs, whose callbacks and parts of batches they have.

    Args:
        reduction, name, dtype: see `EmbeddingLoss`.
    """

    def callbacks(self, parts):
        return hooks_of(self.loss).callbacks(parts)

    def check_callbacks(self, callbacks):
        hooks_of(self.loss).check_callbacks(callbacks)

    @property
    def batch_parts(self):
        """As many as the loss takes."""
        return hooks_of(self.loss).batch_parts

    def get_config(self):
        return {**super().get_config(), "loss": keras.saving.serialize_keras_object(self.loss)}

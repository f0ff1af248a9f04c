"""N-pairs loss of a similarity matrix, as in TensorFlow Addons."""

from dataclasses import KW_ONLY

import keras
from keras import ops

from tfdml.functional.checks import check_class_numbers, check_pairs_input
from tfdml.functional.pairs import log_sum_exp
from tfdml.losses.embedding_loss import EmbeddingLoss


@keras.saving.register_keras_serializable(package="tfdml")
class NpairsLoss(EmbeddingLoss):
    """N-pairs loss of a similarity matrix, in place of `tfa.losses.NpairsLoss`.

    It is the cross entropy of each row's softmax with its class, shared evenly among the class' columns. On
    embeddings and class numbers `tfdml.losses.NPair` makes the similarities itself.

    Args:
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        y_true: `[B]` class numbers of rows and columns.
        y_pred: `[B, B]` similarities, usually the products of two batches of embeddings.
    """

    _: KW_ONLY
    name: str | None = "npairs_loss"

    def call(self, y_true, y_pred):
        labels, similarities = check_pairs_input(y_true, y_pred)
        check_class_numbers(labels)
        rows, columns = similarities.shape
        if None not in (rows, columns) and rows != columns:
            raise ValueError(f"Expected similarities of shape [batch, batch], received shape {(rows, columns)}.")
        same = ops.cast(labels[:, None] == labels[None, :], similarities.dtype)
        targets = same / ops.sum(same, axis=1, keepdims=True)
        everywhere = ops.ones_like(similarities, dtype="bool")
        return log_sum_exp(everywhere, similarities) - ops.sum(targets * similarities, axis=1)

"""N-pairs loss of a similarity matrix, as in TensorFlow Addons."""

import keras
from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.log_sums import log_sum_exp
from tfdml.losses.embedding_loss import EmbeddingLoss


def npairs_loss(y_true, y_pred):
    """Cross entropy of each row's softmax with its class, shared evenly among the class' columns; the mean over rows.

    Args:
        y_true: `[B]` class numbers of rows and columns.
        y_pred: `[B, B]` similarities, usually the products of two batches of embeddings.

    Returns:
        Scalar.
    """
    return ops.mean(_row_values(y_true, y_pred))


def _row_values(labels, similarities):
    labels, similarities = check_pairs_input(labels, similarities)
    rows, columns = similarities.shape
    if None not in (rows, columns) and rows != columns:
        raise ValueError(f"Expected similarities of shape [batch, batch], received shape {(rows, columns)}.")
    same = ops.cast(labels[:, None] == labels[None, :], similarities.dtype)
    targets = same / ops.sum(same, axis=1, keepdims=True)
    everywhere = ops.ones_like(similarities, dtype="bool")
    return log_sum_exp(everywhere, similarities) - ops.sum(targets * similarities, axis=1)


@keras.saving.register_keras_serializable(package="tfdml")
class NpairsLoss(EmbeddingLoss):
    """N-pairs loss of a similarity matrix, in place of `tfa.losses.NpairsLoss`.

    On embeddings and class numbers `tfdml.losses.NPair` makes the similarities itself.

    Args:
        name, **kwargs: see `EmbeddingLoss`.
    """

    def __init__(self, name="npairs_loss", **kwargs):
        super().__init__(name=name, **kwargs)

    def call(self, labels, similarities):
        return _row_values(labels, similarities)

"""Weights of the positives of each row, and rows around their mean."""

from keras import ops

from tfdml.functional.pairs import positive_pairs
from tfdml.registry.arguments import Tensor


def partner_weights(labels: Tensor, dtype: str) -> tuple[Tensor, Tensor]:
    """Returns the weights `[B, B]` of each row's positives, which sum to 1, and the mask `[B]` of rows that have any.

    Args:
        labels: of the kinds that `tfdml.functional.pairs` names.
        dtype: of the weights.
    """
    positives = ops.cast(positive_pairs(labels), dtype)
    count = ops.sum(positives, axis=1)
    return positives / ops.maximum(count, 1.0)[:, None], count > 0.0


def centered(rows: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Returns rows `[B, d]` minus the mean of those that count, 0 for the others, and their number, at least 1."""
    mask = ops.cast(counts, rows.dtype)
    number = ops.maximum(ops.sum(mask), 1.0)
    mean = ops.sum(mask[:, None] * rows, axis=0) / number
    return ops.where(counts[:, None], rows - mean, 0.0), number

"""Boolean masks `[B, B]` of positive and negative pairs of a batch.

Where only some of the rows are anchors, `queries` is their number: they are the first, and masks are `[queries, B]`.
The other rows are constant to the gradient of distances and products.
"""

from keras import ops
from keras.backend import standardize_dtype

from tfdml.registry.annotations import Tensor

# Dtypes that may be too small for the number of classes.
SMALL_INTEGERS = ("bool", "int8", "uint8", "int16", "uint16")
# Label of a row of a gallery that is no image; for labels in int64.
NO_IMAGE = -(2**63)


def positive_pairs(labels: Tensor, queries: int | None = None) -> Tensor:
    """Returns the mask `[B, B]` of different rows of the same class."""
    rows = ops.arange(ops.shape(labels)[0], dtype="int32")
    return ops.logical_and(labels[:queries, None] == labels[None, :], rows[:queries, None] != rows[None, :])


def negative_pairs(labels: Tensor, queries: int | None = None) -> Tensor:
    """Returns the mask `[B, B]` of rows of different classes; with `queries`, of images only, see `NO_IMAGE`."""
    different = labels[:queries, None] != labels[None, :]
    return different if queries is None else ops.logical_and(different, labels[None, :] != NO_IMAGE)


def given_pairs(labels: Tensor, parts: int, other: int = 1) -> Tensor:
    """Returns the mask `[B, B]` of row i of the first of equal parts of the batch with row i of another part.

    Args:
        labels: `[B]`.
        parts: number of parts.
        other: number of the other part, from 1.
    """
    rows, size = ops.arange(ops.shape(labels)[0], dtype="int32"), ops.shape(labels)[0] // parts
    return ops.logical_and(rows[:, None] < size, rows[None, :] - rows[:, None] == other * size)


def batch_ids(labels: Tensor) -> Tensor:
    """Replaces each label with the index of the first row of its class, which is a small integer.

    Floating point represents it exactly, unlike labels above 2^24.
    """
    same = ops.cast(labels[:, None] == labels[None, :], "int32")
    return ops.argmax(same, axis=1)


def class_mask(labels: Tensor, classes: int) -> Tensor:
    """Returns the mask `[B, C]` of each row's own class; all False if its label is not from 0 to C - 1."""
    return ops.cast(labels, "int32")[:, None] == ops.arange(classes, dtype="int32")[None, :]


def nan_outside(labels: Tensor, classes: int, values: Tensor) -> Tensor:
    """Returns the values `[B]`, with NaN where a label is not from 0 to C - 1.

    A compiled function cannot raise an error, and any number would be wrong.
    """
    if standardize_dtype(labels.dtype) in SMALL_INTEGERS:
        labels = ops.cast(labels, "int32")
    inside = ops.logical_and(labels >= 0, labels < classes)
    return ops.where(inside, values, float("nan"))

"""Which rows of a batch belong together, as boolean masks `[B, B]`."""

from keras import ops
from keras.backend import standardize_dtype

# Types that may not hold the number of classes.
SMALL_INTEGERS = ("bool", "int8", "uint8", "int16", "uint16")


def positive_pairs(labels):
    """True where two different rows share a class."""
    rows = ops.arange(ops.shape(labels)[0], dtype="int32")
    return ops.logical_and(labels[:, None] == labels[None, :], rows[:, None] != rows[None, :])


def negative_pairs(labels):
    """True where two rows differ in class."""
    return labels[:, None] != labels[None, :]


def batch_ids(labels):
    """For each row the number of the first row of its class: small integers that say the same as the labels.

    Floating point holds them exactly, which it does not do for labels above 2^24.
    """
    same = ops.cast(labels[:, None] == labels[None, :], "int32")
    return ops.argmax(same, axis=1)


def class_mask(labels, classes):
    """True `[B, C]` in each row's own class; a row whose label is no number from 0 to C - 1 is all False."""
    return ops.cast(labels, "int32")[:, None] == ops.arange(classes, dtype="int32")[None, :]


def nan_outside(labels, classes, values):
    """The values `[B]`, and no number where a label is not from 0 to C - 1.

    Nothing can be raised inside a compiled function, and any number would be a wrong one.
    """
    if standardize_dtype(labels.dtype) in SMALL_INTEGERS:
        labels = ops.cast(labels, "int32")
    inside = ops.logical_and(labels >= 0, labels < classes)
    return ops.where(inside, values, float("nan"))

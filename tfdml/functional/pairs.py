"""Which rows of a batch belong together, as boolean masks `[B, B]`."""

from keras import ops


def positive_pairs(labels):
    """True where two different rows share a class."""
    same = labels[:, None] == labels[None, :]
    return ops.logical_and(same, ops.logical_not(_diagonal(labels)))


def negative_pairs(labels):
    """True where two rows differ in class."""
    return labels[:, None] != labels[None, :]


def batch_ids(labels):
    """For each row the number of the first row of its class: small integers that say the same as the labels.

    Floating point holds them exactly, which it does not do for labels above 2^24.
    """
    same = ops.cast(labels[:, None] == labels[None, :], "int32")
    return ops.argmax(same, axis=1)


def _diagonal(labels):
    rows = ops.arange(ops.shape(labels)[0])
    return rows[:, None] == rows[None, :]

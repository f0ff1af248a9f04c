"""Cosines between all rows of a batch, with finite gradients everywhere."""

from keras import ops

from tfdml.functional.distances import unit_length


def cosines(embeddings):
    """Cosines `[B, B]` between the rows of `[B, d]`; with a row of zeros it is 0, and so is that row's gradient."""
    units = unit_length(embeddings)
    return ops.matmul(units, ops.transpose(units))

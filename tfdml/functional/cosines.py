"""Dot products and cosines between all rows of a batch, with finite gradients everywhere."""

from keras import ops

from tfdml.functional.distances import unit_length
from tfdml.functional.known_gradient import known_gradient


@known_gradient
def dot_products(rows):
    """Dot products `[B, B]` between the rows of `[B, d]`."""

    def gradient(upstream):
        # One product where automatic differentiation, to which the rows are two operands, takes two.
        return ops.matmul(upstream + ops.transpose(upstream), rows)

    return ops.matmul(rows, ops.transpose(rows)), gradient


def cosines(embeddings):
    """Cosines `[B, B]` between the rows of `[B, d]`; with a row of zeros it is 0, and so is that row's gradient."""
    return dot_products(unit_length(embeddings))

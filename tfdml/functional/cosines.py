"""Dot products and cosine similarities of all rows of a batch, with finite gradients everywhere."""

from keras import ops

from tfdml.functional.distances import unit_length
from tfdml.functional.known_gradient import known_gradient


@known_gradient
def dot_products(rows):
    """Returns the dot products `[B, B]` of the rows of `[B, d]`."""

    def gradient(upstream):
        # One product; automatic differentiation, which sees the rows as two operands, takes two.
        return ops.matmul(upstream + ops.transpose(upstream), rows)

    return ops.matmul(rows, ops.transpose(rows)), gradient


def cosines(embeddings):
    """Returns the cosines `[B, B]` of the rows of `[B, d]`; a row of zeros has cosines and a gradient of 0."""
    return dot_products(unit_length(embeddings))

"""Dot products and cosine similarities of all rows of a batch, with finite gradients everywhere."""

from keras import ops

from tfdml.functional.distances import beginning_with, both_ways, unit_length
from tfdml.functional.known_gradient import known_gradient
from tfdml.registry.arguments import Tensor


def dot_products(rows: Tensor, queries: int | None = None) -> Tensor:
    """Returns the dot products `[B, B]` of the rows of `[B, d]`; `[queries, B]` of the first rows, see `pairs`."""
    others = None if queries is None else ops.stop_gradient(rows[queries:])

    @known_gradient
    def compute(rows):
        gallery = beginning_with(rows, others)

        def gradient(upstream):
            # One product; automatic differentiation, which sees the rows as two operands, takes two.
            return ops.matmul(both_ways(upstream, others), gallery)

        return ops.matmul(rows, ops.transpose(gallery)), gradient

    return compute(rows[:queries])


def cosines(embeddings: Tensor, queries: int | None = None) -> Tensor:
    """Returns the cosines `[B, B]` of the rows of `[B, d]`; a row of zeros has cosines and a gradient of 0.

    For `queries` see `dot_products`.
    """
    return dot_products(unit_length(embeddings), queries)

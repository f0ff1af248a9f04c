"""Counts negatives ahead of positives, exactly, with products in float32, where these leave few in doubt."""

import numpy as np

from tfdml.evaluation.ranks.counting import SORTED_FROM, count_from_approximate
from tfdml.evaluation.ranks.products import Products

# More exact similarities of a query than this fraction of a tile take as long as all of them at once.
FEW = 1 / 32
# Smaller products may become 0 in float32.
SMALLEST = 2.0**-125


class FloatCounts:
    """Counts with products in float32, and computes exactly what these do not decide.

    Args:
        vectors: `ExactVectors` of the gallery.
    """

    #: Of its products; None if it has a space for them itself.
    dtype = np.float32
    #: With more thresholds, most similarities are near one of them.
    most_thresholds = SORTED_FROM

    def __init__(self, vectors):
        self.vectors = vectors
        self.products = Products(vectors.vectors)
        self._longest = _lengths(vectors.vectors).max(initial=0.0)
        self._largest_offset = vectors.offsets.max(initial=0.0)

    def counter(self, block, members, tile, out):
        """Returns the function from the place of a query to how many negatives are as similar as each threshold.

        It returns None for a query with many similarities in doubt.

        Args:
            block: `QueryBlock`.
            members: for each query, the slice of the tile that is of its class.
            tile: slice of the gallery.
            out: array `[B, G]` for the products.
        """
        similarities, errors = self.similarities(block.vectors, tile, out), self.errors(block.vectors)

        def count(query):
            row = similarities[query]
            row[members[query]] = -np.inf

            def exact(places):
                return self.vectors.similarities_of_one(block.vectors[query], tile.start + places)

            return count_from_approximate(row, block.thresholds[query], errors[query], exact, FEW * len(row))

        return count

    def similarities(self, queries, tile, out):
        """Returns approximate similarities of queries `[B, d]` to a slice of the gallery, in `out`."""
        self.products(queries, tile, out)
        if self.vectors.has_offsets:
            out -= self.vectors.offsets[tile].astype(np.float32)
        return out

    def errors(self, queries):
        """Returns how wrong the similarities of queries `[B, d]` can be, `[B]`."""
        # Each of d products and sums rounds once; the offset, the threshold and the result some more.
        products = (queries.shape[1] + 8) * _lengths(queries) * self._longest
        return 2.0**-24 * 1.001 * (products + 4 * self._largest_offset) + queries.shape[1] * SMALLEST


def _lengths(vectors):
    """Returns the lengths of vectors, not less."""
    return 1.001 * np.sqrt(np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64))

"""Counts negatives ahead of positives, exactly, where products in half precision leave few similarities in doubt."""

import bisect

import numpy as np

from tfdml.evaluation.ranks.counting import count_from_approximate
from tfdml.evaluation.ranks.half_products import HalfProducts, half_products_are_fast

# More similarities in doubt than this fraction of a tile take as long as all of them in float32.
FEW = 1 / 32
# For positives that are beyond what is asked for.
BEYOND = 2**40


class HalfCounts:
    """Counts with products in half precision, and computes again what these do not decide.

    Args:
        floats: `FloatCounts` of the gallery, in memory, by cosine similarity.
        depths: see `positive_ranks`.
    """

    dtype = None
    most_thresholds = np.inf

    def __init__(self, floats, depths):
        self.floats, self.vectors, self.depths = floats, floats.vectors, depths
        self.products = HalfProducts(self.vectors.vectors)

    @classmethod
    def of(cls, floats, depths):
        """Returns the counts for a gallery, or None where float32 is needed or faster."""
        vectors = floats.vectors
        if depths is None or vectors.has_offsets or isinstance(vectors.vectors, np.memmap):
            return None
        return cls(floats, depths) if half_products_are_fast() else None

    def counter(self, block, members, tile, out):
        """Returns the function from the number of a query to how many negatives are as similar as each threshold.

        It returns None for a query with many similarities in doubt. Where a positive's rank is beyond what is asked
        for, its count is `BEYOND`.

        Args:
            block, members, tile: as of `FloatCounts.counter`.
            out: not used.
        """
        results = self.products(block.vectors, tile)
        bounds = self.products.bounds(block.vectors, block.thresholds)
        errors = self.floats.errors(block.vectors)
        first, others = self.depths(block.positives)

        def count(query):
            row, (low, high) = results[query], bounds[query]
            row[members[query]] = -1
            counts = np.full(len(low), BEYOND)
            sure = np.count_nonzero(row >= high[-1])
            if sure >= first[query]:
                return counts
            begin = _first_within(row, high, others[query])
            places = np.flatnonzero((row >= low[begin]) & (row < high[-1]))
            if low[begin] <= 0 or len(places) > FEW * len(row):
                return None
            vector, rows = block.vectors[query], tile.start + places
            # Not by BLAS, whose own threads would wait for each other: each query has one thread.
            similarities = np.einsum("nd,d->n", self.vectors.vectors[rows], vector)
            thresholds = block.thresholds[query][begin:]

            def exact(near):
                return self.vectors.similarities_of_one(vector, rows[near])

            counts[begin:] = sure + count_from_approximate(similarities, thresholds, errors[query], exact, len(rows))
            return counts

        return count


def _first_within(row, high, depth):
    """Returns the place of the farthest positive whose rank can be within a depth; of the nearest if there is none."""
    last = len(high) - 1

    def is_within(place):
        return np.count_nonzero(row >= high[place]) + len(high) - place <= depth

    return bisect.bisect_left(range(last), True, key=is_within)

"""Queries whose positives are ranked together."""

import dataclasses
import itertools

import numpy as np

from tfdml.evaluation.ranks import PositiveRanks

# Queries that a thread takes at once.
PART = 64
# If more of a block must be counted in float32, all other blocks are.
MOST_LEFT = 0.25


@dataclasses.dataclass(frozen=True)
class QueryBlock:
    """Queries with a positive, and how many negatives were found ahead of each positive.

    Args:
        rows: `[B]` rows of the queries.
        vectors: `[B, d]` array.
        positives: `[B]` number of positives of each query.
        thresholds: for each query, the similarities of its positives, in ascending order, which negatives are compared
            with.
        ahead: for each query, for each threshold, the number of negatives that are as similar.
    """

    rows: np.ndarray
    vectors: np.ndarray
    positives: np.ndarray
    thresholds: list
    ahead: list

    @classmethod
    def of(cls, rows, vectors, thresholds):
        """Creates the block before any negative was found."""
        positives = np.array([len(each) for each in thresholds], np.int64)
        return cls(rows, vectors, positives, thresholds, [np.zeros(len(each), np.int64) for each in thresholds])

    def add(self, count, gallery, tile, threads):
        """Adds the negatives of a tile, by a pool of threads.

        Args:
            count: function from a query to how many negatives are as similar as each threshold, or to None if that
                takes similarities in float32.
            gallery: `_Gallery`.
            tile: slice of it.
            threads: executor.
        """
        left = _add(self.ahead, np.arange(len(self.rows)), count, threads)
        if len(left) > MOST_LEFT * len(self.rows):
            gallery.half = None
        if len(left):
            _add(self.ahead, left, gallery.counter(self, left, tile), threads)

    def ranks(self):
        """Returns the `PositiveRanks`."""
        return PositiveRanks.of(self.rows, self.positives, self.ahead)


def _add(ahead, queries, count, threads):
    """Adds counts to those of queries, by a pool of threads; returns the queries whose count is None."""
    parts, left = np.array_split(queries, -(-len(queries) // PART)), []
    counts = threads.map(lambda part: [count(query) for query in part.tolist()], parts)
    for query, more in zip(queries.tolist(), itertools.chain.from_iterable(counts), strict=True):
        if more is None:
            left.append(query)
        else:
            ahead[query] += more
    return np.array(left, np.int64)

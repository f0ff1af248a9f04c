"""Queries whose positives are ranked together."""

import dataclasses
import itertools

import numpy as np

from tfdml.evaluation.ranks.ranks import PositiveRanks

# Queries that a thread takes at once.
PART = 64


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

    def __len__(self):
        return len(self.rows)

    def take(self, places):
        """Returns the block of some of the queries, which shares what was found."""
        if len(places) == len(self):
            return self
        thresholds, ahead = ([each[place] for place in places] for each in (self.thresholds, self.ahead))
        return QueryBlock(self.rows[places], self.vectors[places], self.positives[places], thresholds, ahead)

    def parts(self, size):
        """Yields blocks of at most `size` queries each."""
        for start in range(0, len(self), size):
            yield self.take(np.arange(start, min(start + size, len(self))))

    def add(self, count, threads):
        """Adds negatives that were found, by a pool of threads; returns the queries whose count is None.

        Args:
            count: function from the place of a query to how many negatives are as similar as each threshold, or to None
                if that takes more exact similarities.
            threads: executor.

        Returns:
            The `QueryBlock` of those that are left.
        """
        parts, left = np.array_split(np.arange(len(self)), -(-len(self) // PART)), []
        counts = threads.map(lambda part: [count(query) for query in part.tolist()], parts)
        for query, more in enumerate(itertools.chain.from_iterable(counts)):
            if more is None:
                left.append(query)
            else:
                # In place, because parts of a block share it.
                self.ahead[query] += more
        return self.take(np.array(left, np.int64))

    def ranks(self):
        """Returns the `PositiveRanks`."""
        return PositiveRanks.of(self.rows, self.positives, self.ahead)

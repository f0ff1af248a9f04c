"""The ranks of the positives of some queries."""

import dataclasses
from collections.abc import Sequence
from typing import Self

import numpy as np


@dataclasses.dataclass(frozen=True)
class PositiveRanks:
    """The ranks of the positives of a block of queries.

    Args:
        rows: `[B]` rows of the queries.
        positives: `[B]` number of positives of each query, 1 or more.
        ranks: `[B, P]` integers: the rank of each positive from 1, ascending; 0 behind a query's last. If only the
            first positive was asked for, P is 1.
    """

    rows: np.ndarray
    positives: np.ndarray
    ranks: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, positives: np.ndarray, ahead: Sequence[np.ndarray]) -> Self:
        """Creates the ranks of queries from the number of negatives ahead of each positive.

        Args:
            rows: `[B]` rows of the queries.
            positives: `[B]` number of positives of each.
            ahead: for each query, the numbers of negatives ahead of its positives, the farthest first.
        """
        ranks = np.zeros((len(ahead), max(map(len, ahead))), np.int64)
        places = np.arange(1, ranks.shape[1] + 1)
        for row, each in zip(ranks, ahead, strict=True):
            np.add(each[::-1], places[: len(each)], out=row[: len(each)])
        return cls(rows, positives, ranks)

    @property
    def first(self) -> np.ndarray:
        """`[B]` ranks of each query's first positive."""
        return self.ranks[:, 0]

    def precisions(self) -> np.ndarray:
        """`[B, P]`: the precision at the rank of each positive; 0 behind a query's last."""
        precisions = np.arange(1, self.ranks.shape[1] + 1) / np.maximum(self.ranks, 1)
        precisions[self.ranks == 0] = 0.0
        return precisions

    def mean_over_positives(self, values: np.ndarray) -> np.ndarray:
        """Returns the mean `[B]` of a value for each positive, `[B, P]` with zeros behind a query's last."""
        # One after another, so that the zeros, as many as the block has it, change no bit.
        return np.cumsum(values, axis=1)[:, -1] / self.positives

"""`NeighborList`: what an index found for a query."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class NeighborList:
    """The similarities of the images in a list of nearest neighbors; what does not count is left out.

    Args:
        positives: those of the query's class, ascending but for ties.
        ties: for each of these, by how much a similarity may differ and count as equal.
        negatives: those of other classes, ascending.
        lowest: all of them less their ties, ascending.
        end: the smallest similarity in the list; images outside may have it too. Minus infinity if the index has found
            all that it can find.
    """

    positives: np.ndarray
    ties: np.ndarray
    negatives: np.ndarray
    lowest: np.ndarray
    end: float

    @classmethod
    def of(cls, query, rows, similarities, ties, task, *, is_all):
        """Creates the list of a query.

        Args:
            query: its row.
            rows: `[K]` rows that were found.
            similarities: `[K]`, exact.
            ties: number or `[K]`, see `ExactVectors.ties`.
            task: `RetrievalTask`.
            is_all: whether the index can find no others.
        """
        same = task.labels[rows] == task.labels[query]
        counted = same & task.countable(query[None], rows)[0]
        end = -np.inf if is_all else similarities.min()
        ties = np.broadcast_to(ties, similarities.shape)
        order = np.flatnonzero(counted)[np.argsort((similarities - ties)[counted])]
        lowest = np.sort((similarities - ties)[counted | ~same])
        return cls(similarities[order], ties[order], np.sort(similarities[~same]), lowest, end)

    def __len__(self):
        return len(self.positives) + len(self.negatives)

    def ahead(self):
        """Returns the number of negatives in the list that are as similar as each positive, the farthest first."""
        return len(self.negatives) - np.searchsorted(self.negatives, self.positives - self.ties)

    def is_decided(self, depth):
        """Returns whether images outside cannot be ahead of a positive that has a rank of at most `depth`."""
        ranks = self.ahead() + np.arange(len(self.positives), 0, -1)
        # The list is in the order of float32 similarities, whose rounding is less than another tie.
        return not np.any((ranks <= depth) & (self.positives - 2 * self.ties <= self.end))

    def count_from(self, similarity):
        """Returns how many images of the list have at least a similarity."""
        return sum(int(np.count_nonzero(each >= similarity)) for each in (self.positives, self.negatives))

    def lowest_at(self, rank):
        """Returns the similarity, less a tie, of the image at a rank, from 1."""
        return self.lowest[-rank]

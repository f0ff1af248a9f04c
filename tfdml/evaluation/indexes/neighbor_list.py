"""`NeighborList`: what an index found for a query."""

import dataclasses

import numpy as np

from tfdml.evaluation.positive_ranks import TIE


@dataclasses.dataclass(frozen=True)
class NeighborList:
    """The similarities of the images in a list of nearest neighbors; what does not count is left out.

    Args:
        positives: those of the query's class, ascending.
        negatives: those of other classes, ascending.
        end: the smallest similarity in the list; images outside may have it too. Minus infinity if the index has found
            all that it can find.
    """

    positives: np.ndarray
    negatives: np.ndarray
    end: float

    @classmethod
    def of(cls, query, rows, similarities, search, *, is_all):
        """Creates the list of a query.

        Args:
            query: its row.
            rows: `[K]` rows that were found.
            similarities: `[K]`, exact.
            search: `Search`.
            is_all: whether the index can find no others.
        """
        same = search.labels[rows] == search.labels[query]
        counted = same & search.countable(query[None], rows)[0]
        end = -np.inf if is_all else similarities.min()
        return cls(np.sort(similarities[counted]), np.sort(similarities[~same]), end)

    def __len__(self):
        return len(self.positives) + len(self.negatives)

    def ahead(self):
        """Returns the number of negatives in the list that are as similar as each positive, the farthest first."""
        return len(self.negatives) - np.searchsorted(self.negatives, self.positives - TIE)

    def is_decided(self, depth):
        """Returns whether images outside cannot be ahead of a positive that has a rank of at most `depth`."""
        ranks = self.ahead() + np.arange(len(self.positives), 0, -1)
        # The list is in the order of float32 similarities, whose rounding is less than another tie.
        return not np.any((ranks <= depth) & (self.positives - 2 * TIE <= self.end))

    def count_from(self, similarity):
        """Returns how many images of the list have at least a similarity."""
        return sum(len(each) - int(np.searchsorted(each, similarity)) for each in (self.positives, self.negatives))

    def similarity_at(self, rank):
        """Returns the similarity of the image at a rank, from 1."""
        return np.sort(np.concatenate([self.positives, self.negatives]))[-rank]

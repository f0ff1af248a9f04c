"""`Pairs`: the similarities of all pairs of a retrieval task, counted in blocks."""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from tfdml.evaluation.ranks.exact_vectors import ExactVectors
from tfdml.evaluation.search import RetrievalTask
from tfdml.evaluation.verification.pair_counts import PairCounts

# Similarities are rounded to multiples of 1 / STEPS, nearly 10^-6: those that differ by less are ties elsewhere, too.
STEPS = 2**20
# By rounding, vectors may be a little longer than 1.
MARGIN = 2**10
CENTER = STEPS + MARGIN
BINS = 2 * CENTER + 1
# Distances are told apart up to so many lengths that nearly all vectors have, twice: outliers make no others equal.
LENGTHS, NEARLY_ALL = 16, 0.99
# Queries, and images of the gallery, that are compared at once.
ROWS, COLUMNS = 512, 8192


@dataclasses.dataclass(frozen=True)
class Pairs:
    """All pairs of a query and a gallery image, each once, where the task counts them.

    Args:
        queries, gallery: `[Q]` and `[G]` rows, sorted by class.
        task: `RetrievalTask` that they are of.
        vectors: `ExactVectors` of all rows, so that counts depend neither on blocks nor on libraries.
        euclidean: whether pairs are compared by distance.
    """

    queries: np.ndarray
    gallery: np.ndarray
    task: RetrievalTask
    vectors: ExactVectors
    euclidean: bool = False

    @classmethod
    def of(cls, embeddings: np.ndarray, task: RetrievalTask, distance: str = "cosine") -> Self:
        """Creates them.

        Args:
            embeddings: `[N, d]` array, finite.
            task: `RetrievalTask` among its rows.
            distance: `cosine` or `euclidean`.
        """
        task.check(embeddings)
        queries, gallery = (rows[np.argsort(task.labels[rows], kind="stable")] for rows in (task.queries, task.gallery))
        return cls(queries, gallery, task, ExactVectors.of(embeddings, distance), distance == "euclidean")

    #: Number of bins, the first of which is of what is no pair of different classes.
    bins = BINS

    @functools.cached_property
    def counts(self) -> PairCounts:
        """The `PairCounts` of all of them."""
        found = np.zeros([2, BINS], np.int64)
        for _, positives, negatives in self.blocks(once=True):
            # Few, mostly: counting them has no need of a row of all bins.
            np.add.at(found[0], positives[1], 1)
            found[1] += np.bincount(negatives.ravel(), minlength=BINS)
        # Those that do not count as pairs of different classes have the first bin.
        found[1, 0] = 0
        places = np.flatnonzero(found.any(axis=0))
        found = found[:, places]
        # Rounding puts equal similarities into two bins if they are near the border of these. So two bins between empty
        # ones count as one; they hold what differs by a tie at most. A bin of each of two pairs is mostly by chance.
        apart = np.diff(places, prepend=-2, append=BINS + 2) > 1
        joined = ~apart[:-1] & apart[1:]
        joined[1:] &= apart[:-2] & ((found[:, 1:] + found[:, :-1]).sum(axis=0) > 2)
        firsts = np.flatnonzero(~joined)
        return PairCounts(self.scores_of(places[firsts]), *np.add.reduceat(found, firsts, axis=1))

    def scores_of(self, bins: ArrayLike) -> np.ndarray:
        """Returns the similarity of each bin, or minus the distance."""
        found = (np.asarray(bins) - CENTER) / STEPS
        return (found - 1) * self._reach * self.vectors.scale if self.euclidean else found

    def bins_of(self, scores: ArrayLike) -> np.ndarray:
        """Returns the first bin that is at least as similar as each score."""
        scores = np.asarray(scores, np.float64)
        found = scores / (self._reach * self.vectors.scale) + 1 if self.euclidean else scores
        return np.clip(np.ceil(found * STEPS - 1e-6).astype(np.int64) + CENTER, 1, BINS)

    def blocks(self, once: bool) -> Iterator[tuple[np.ndarray, tuple[np.ndarray, np.ndarray], np.ndarray]]:
        """Yields rows of queries `[B]`, the place of the query and the bin of each positive, and bins `[B, C]`.

        Those of the latter that are no pairs of different classes are 0.

        Args:
            once: whether pairs of two queries that are both in the gallery come once, and not both ways.
        """
        alike = np.array_equal(self.queries, self.gallery)
        queries, gallery = self.vectors.take(self.queries), self.vectors.take(self.gallery)
        space = np.empty(ROWS * COLUMNS)
        for start in range(0, len(self.queries), ROWS):
            rows = slice(start, min(start + ROWS, len(self.queries)))
            for first in range(start if alike and once else 0, len(self.gallery), COLUMNS):
                columns = slice(first, min(first + COLUMNS, len(self.gallery)))
                out = space[: (rows.stop - start) * (columns.stop - first)].reshape(rows.stop - start, -1)
                bins = self._bins(queries, gallery, rows, columns, out)
                yield self.queries[rows], *self._divided(bins, self.queries[rows], self.gallery[columns], once)

    def _bins(self, queries, gallery, rows, columns, out):
        found = gallery.similarities(queries.vectors[rows], columns, out)
        if self.euclidean:
            # From half of (the query's squared length minus the squared distance) to 1 - the distance.
            np.subtract(queries.offsets[rows, None], found, out=found)
            distances = np.sqrt(2 * np.maximum(found, 0.0, out=found), out=found)
            np.subtract(1.0, np.minimum(distances / self._reach, 2.0, out=found), out=found)
        found *= STEPS
        # Positive, so that cutting off the fraction rounds.
        found += CENTER + 0.5
        return found.astype(np.intp)

    def _divided(self, bins, rows, columns, once):
        labels, others = self.task.labels[rows], self.task.labels[columns]
        low, high = np.searchsorted(others, labels[0]), np.searchsorted(others, labels[-1], side="right")
        same = labels[:, None] == others[low:high]
        counted = self.task.countable(rows, columns[low:high]) & same
        if once and (twice := self._twice(rows, columns)) is not None:
            counted &= ~twice[:, low:high]
            bins[twice] = 0
        within = bins[:, low:high]
        places = np.nonzero(counted)
        positives = places[0], within[places]
        within[same] = 0
        return positives, bins

    def _twice(self, rows, columns):
        """Returns booleans `[B, C]`, which pairs come the other way, too, and are left to that; None if none is."""
        if self._places[columns[0]] > self._places[rows[-1]] or not self._are_both[rows].any():
            return None
        later = self._places[rows][:, None] >= self._places[columns]
        return later & (self._are_both[rows][:, None] & self._are_both[columns])

    @functools.cached_property
    def _reach(self):
        """Half of the distance from which distances count as equal, where the longest vector has length 1."""
        lengths = np.sqrt(2 * self.vectors.offsets[np.union1d(self.queries, self.gallery)])
        return min(LENGTHS * np.quantile(lengths, NEARLY_ALL, method="lower"), 1.0) or 1.0

    @functools.cached_property
    def _are_both(self):
        marks = np.zeros([2, len(self.task.labels)], bool)
        marks[0, self.queries] = marks[1, self.gallery] = True
        return marks.all(axis=0)

    @functools.cached_property
    def _places(self):
        """The place of each row in the order of classes."""
        places = np.empty(len(self.task.labels), np.int64)
        places[np.argsort(self.task.labels, kind="stable")] = np.arange(len(places))
        return places

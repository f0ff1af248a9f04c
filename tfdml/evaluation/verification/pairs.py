"""The similarities of all pairs of queries and gallery images, counted in blocks."""

import dataclasses
import functools
import math
from collections.abc import Iterator
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from tfdml.evaluation.queries import RetrievalTask
from tfdml.evaluation.ranks.exact_vectors import ExactVectors, tie_groups


def best_matches(pairs):
    """Returns the bins of each query's nearest images of the same class and of other classes, `[2, Q]`, or 0 for none.

    `RetrievalPairs.scores_of` returns the similarities of bins. A query is not its own match.
    """
    found = np.zeros([2, len(pairs.task.labels)], np.int64)
    for rows, (queries, positives), negatives in pairs.blocks(once=False):
        np.maximum.at(found[0], rows[queries], positives)
        found[1, rows] = np.maximum(found[1, rows], negatives.max(axis=1))
    return found[:, pairs.queries]


# A small tolerance, so that rounding does not exclude a rate that is just reached.
ROUNDED = 1 + 1e-9


@dataclasses.dataclass(frozen=True)
class PairCounts:
    """Numbers of pairs by similarity. A threshold accepts the pairs that are at least as similar.

    `scores` `[S]` are the distinct similarities, ascending, or minus the distances if pairs are compared by distance.
    `positives` and `negatives` are the numbers of pairs of the same and of different classes with each score.
    """

    scores: np.ndarray
    positives: np.ndarray
    negatives: np.ndarray

    @classmethod
    def of_scores(cls, scores: np.ndarray, same: np.ndarray, tie: float = 0.0) -> Self:
        """Counts pairs, from the similarity `[P]` of each and whether it is of the same class.

        Similarities that differ by no more than a tie count as equal. The lowest of them is then the score of all.
        """
        values, places = np.unique(scores, return_inverse=True)
        same = np.asarray(same, bool)
        groups = tie_groups(values, tie, np.diff(values, prepend=-np.inf) > tie)
        values, places = values[np.diff(groups, prepend=0) > 0], groups[places] - 1
        return cls(values, *(np.bincount(places[kind], minlength=len(values)) for kind in (same, ~same)))

    @functools.cached_property
    def accepted(self):
        """Numbers of positives and negatives that are at least as similar as each score, `[S]` each."""
        return tuple(np.cumsum(counts[::-1])[::-1] for counts in (self.positives, self.negatives))

    @functools.cached_property
    def totals(self):
        """The number of pairs of the same class, and of different classes."""
        return self.positives.sum().item(), self.negatives.sum().item()

    @functools.cached_property
    def rates(self):
        """False and true accept rates `[S + 1]`, from the threshold above all scores to the lowest score."""
        positives, negatives = (
            np.append(0.0, each[::-1] / total) for each, total in zip(self.accepted, self.totals, strict=True)
        )
        return negatives, positives

    def trues_at(self, far):
        """Returns the true accept rates at the largest false accept rates that do not exceed these."""
        accepts, trues = self.rates
        return trues[np.searchsorted(accepts, np.asarray(far) * ROUNDED, side="right") - 1]

    def place_at(self, far):
        """Returns the place of the lowest score that accepts at most this rate of negatives, or S if none does."""
        return len(self.scores) + 1 - int(np.searchsorted(self.rates[0], far * ROUNDED, side="right"))

    def above(self, place):
        """Returns the threshold halfway between the score of a place and the one below, or above all for the place S.

        It accepts what the score accepts, and is as far from both as possible.
        """
        if place == len(self.scores):
            return float(np.nextafter(self.scores[-1], np.inf))
        return float(self.scores[[max(place - 1, 0), place]].mean())


def least_count(rate: float) -> int:
    """Returns the smallest count of which a single item is at most this rate."""
    # The tolerance corrects rounding errors of 1 / rate.
    return math.ceil(1 / rate - 1e-6)


# Similarities are rounded to multiples of 1 / STEPS, about 10^-6, because smaller differences count as ties anyway.
STEPS = 2**20
# Rounded vectors may be slightly longer than 1. The first bin holds everything that is not a pair of different
# classes.
MARGIN = 2**10
CENTER = STEPS + MARGIN
BINS = 2 * CENTER + 1
# Distances are distinguished up to 2 * LENGTHS times the length that nearly all vectors have, so that outliers do not
# make others equal.
LENGTHS, NEARLY_ALL = 16, 0.99
# Numbers of queries and of gallery images that are compared at once.
ROWS, COLUMNS = 512, 8192


@dataclasses.dataclass(frozen=True)
class RetrievalPairs:
    """All pairs of a query and a gallery image that the task counts, each once.

    Args:
        queries, gallery: `[Q]` and `[G]` rows, sorted by class.
        task: The `RetrievalTask` that the pairs belong to.
        vectors: `ExactVectors` of all rows, so that counts depend neither on blocks nor on libraries.
        euclidean: Boolean. Whether pairs are compared by distance. Defaults to `False`.
    """

    queries: np.ndarray
    gallery: np.ndarray
    task: RetrievalTask
    vectors: ExactVectors
    euclidean: bool = False

    @classmethod
    def of(cls, embeddings: np.ndarray, task: RetrievalTask, distance: str = "cosine") -> Self:
        """Creates the pairs of a task from embeddings `[N, d]`."""
        task.check(embeddings)
        queries, gallery = (rows[np.argsort(task.labels[rows], kind="stable")] for rows in (task.queries, task.gallery))
        return cls(queries, gallery, task, ExactVectors.of(embeddings, distance), distance == "euclidean")

    @property
    def classes(self) -> np.ndarray:
        """The classes of queries and gallery, ascending."""
        return np.unique(self.task.labels[np.union1d(self.queries, self.gallery)])

    @functools.cached_property
    def counts(self) -> PairCounts:
        """The `PairCounts` of all pairs."""
        found = np.zeros([2, BINS], np.int64)
        for _, positives, negatives in self.blocks(once=True):
            # Positives are usually few, so count them one by one instead of over all bins.
            np.add.at(found[0], positives[1], 1)
            found[1] += np.bincount(negatives.ravel(), minlength=BINS)
        # The first bin holds what does not count as a pair of different classes.
        found[1, 0] = 0
        places = np.flatnonzero(found.any(axis=0))
        found = found[:, places]
        # Rounding can put equal similarities into two neighboring bins. So two bins between empty bins count as one,
        # because their similarities differ by at most a tie. Two bins of one pair each are mostly neighbors by chance.
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
        """Yields rows of queries `[B]`; the query's place and the bin of each positive; and bins `[B, C]` of negatives.

        Bins are 0 for pairs that are not of different classes. If `once`, a pair of two queries that are both in the
        gallery is yielded once, and otherwise in both directions.
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
            # Convert half of (the query's squared length minus the squared distance) to 1 minus the distance.
            np.subtract(queries.offsets[rows, None], found, out=found)
            distances = np.sqrt(2 * np.maximum(found, 0.0, out=found), out=found)
            np.subtract(1.0, np.minimum(distances / self._reach, 2.0, out=found), out=found)
        found *= STEPS
        # Make values positive, so that truncating rounds them.
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
        """Returns booleans `[B, C]`: which pairs also come in the other direction and are skipped. None if none is."""
        if self._places[columns[0]] > self._places[rows[-1]] or not self._are_both[rows].any():
            return None
        later = self._places[rows][:, None] >= self._places[columns]
        return later & (self._are_both[rows][:, None] & self._are_both[columns])

    @functools.cached_property
    def _reach(self):
        """Half the distance from which distances count as equal, if the longest vector has length 1."""
        lengths = np.sqrt(2 * self.vectors.offsets[np.union1d(self.queries, self.gallery)])
        return min(LENGTHS * np.quantile(lengths, NEARLY_ALL, method="lower"), 1.0) or 1.0

    @functools.cached_property
    def _are_both(self):
        marks = np.zeros([2, len(self.task.labels)], bool)
        marks[0, self.queries] = marks[1, self.gallery] = True
        return marks.all(axis=0)

    @functools.cached_property
    def _places(self):
        places = np.empty(len(self.task.labels), np.int64)
        places[np.argsort(self.task.labels, kind="stable")] = np.arange(len(places))
        return places


@dataclasses.dataclass(frozen=True)
class ClassCounts:
    """Numbers of pairs of each class's queries, from each threshold up to the next. Both directions of a pair count.

    `thresholds` `[K]` are ascending, and the lowest accepts all pairs that matter. `positives` and `negatives` are `[C,
    K]`. `totals` `[2, C]` are the numbers of all pairs of each kind, including pairs below the lowest threshold.
    """

    thresholds: np.ndarray
    positives: np.ndarray
    negatives: np.ndarray
    totals: np.ndarray

    @classmethod
    def of(cls, pairs, thresholds):
        """Counts `RetrievalPairs` between ascending thresholds, for the `C` class labels of their task."""
        # The number of thresholds that accept each bin. What is not a pair has a column of its own.
        columns = len(thresholds) + 2
        cells = np.searchsorted(pairs.bins_of(thresholds), np.arange(BINS), side="right")
        cells[0] = columns - 1
        labels = pairs.task.labels
        found = np.zeros([2, labels.max() + 1, columns], np.int64)
        for rows, (queries, positives), negatives in pairs.blocks(once=False):
            classes, places = np.unique(labels[rows], return_inverse=True)
            keys = places[queries] * columns + cells[positives], places[:, None] * columns + cells[negatives]
            for kind, each in enumerate(keys):
                counts = np.bincount(each.ravel(), minlength=len(classes) * columns)
                found[kind, classes] += counts.reshape(len(classes), columns)
        return cls(np.asarray(thresholds), *found[:, :, 1:-1], found[:, :, :-1].sum(axis=2))

    def accepted(self):
        """Returns how many pairs of each kind and class each threshold accepts, `[2, C, K]`."""
        return np.cumsum(np.stack([self.positives, self.negatives])[:, :, ::-1], axis=2)[:, :, ::-1]


def thresholds_of(counts: PairCounts, number: int = 150) -> np.ndarray:
    """Returns thresholds that divide pairs finely: quantiles of both kinds, and powers of the false accept rate.

    There are at most `number` of each.
    """
    places = [0]
    for accepted in counts.accepted:
        places += np.searchsorted(-accepted, -np.linspace(0, accepted[0], number)).tolist()
    negatives = counts.accepted[1]
    places += np.searchsorted(-negatives, -np.geomspace(1, max(negatives[0], 1), number)).tolist()
    return counts.scores[np.unique(np.minimum(places, len(counts.scores) - 1))]

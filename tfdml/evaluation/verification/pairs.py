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
    """Returns the bins of the nearest image of each query's class and of others, `[2, Q]`; 0 for none.

    The similarities of bins are those of `RetrievalPairs.scores_of`. A query is not its own match.
    """
    found = np.zeros([2, len(pairs.task.labels)], np.int64)
    for rows, (queries, positives), negatives in pairs.blocks(once=False):
        np.maximum.at(found[0], rows[queries], positives)
        found[1, rows] = np.maximum(found[1, rows], negatives.max(axis=1))
    return found[:, pairs.queries]


# Rounding must not exclude a rate that is just reached.
ROUNDED = 1 + 1e-9


@dataclasses.dataclass(frozen=True)
class PairCounts:
    """Numbers of pairs by similarity. A threshold accepts the pairs that are at least as similar.

    `scores` `[S]` are similarities, ascending, each once, or minus the distance where pairs are compared by distance;
    `positives` and `negatives` are the numbers of pairs of the same and of different classes with each.
    """

    scores: np.ndarray
    positives: np.ndarray
    negatives: np.ndarray

    @classmethod
    def of_scores(cls, scores: np.ndarray, same: np.ndarray, tie: float = 0.0) -> Self:
        """Counts pairs one by one, from the similarity `[P]` of each and whether it is of the same class.

        Similarities that differ by no more than a tie count as equal; the lowest of them is then the score of all.
        """
        values, places = np.unique(scores, return_inverse=True)
        same = np.asarray(same, bool)
        groups = tie_groups(values, tie, np.diff(values, prepend=-np.inf) > tie)
        values, places = values[np.diff(groups, prepend=0) > 0], groups[places] - 1
        return cls(values, *(np.bincount(places[kind], minlength=len(values)) for kind in (same, ~same)))

    @functools.cached_property
    def accepted(self):
        """Positives and negatives that are at least as similar as each score, `[S]` each."""
        return tuple(np.cumsum(counts[::-1])[::-1] for counts in (self.positives, self.negatives))

    @functools.cached_property
    def totals(self):
        """The number of pairs of the same class, and of different classes."""
        return self.positives.sum().item(), self.negatives.sum().item()

    @functools.cached_property
    def rates(self):
        """False accept rate and true accept rate `[S + 1]`, from the threshold above all scores to the lowest score."""
        positives, negatives = (
            np.append(0.0, each[::-1] / total) for each, total in zip(self.accepted, self.totals, strict=True)
        )
        return negatives, positives

    def trues_at(self, far):
        """Returns the true accept rates at the highest false accept rates that are no more than these."""
        accepts, trues = self.rates
        return trues[np.searchsorted(accepts, np.asarray(far) * ROUNDED, side="right") - 1]

    def place_at(self, far):
        """Returns the place of the lowest score that accepts no more than this rate of negatives; S if none does."""
        return len(self.scores) + 1 - int(np.searchsorted(self.rates[0], far * ROUNDED, side="right"))

    def above(self, place):
        """Returns the threshold between the score of a place and the one below; above all for the place S.

        It accepts what the score accepts, and keeps as far from both as possible.
        """
        if place == len(self.scores):
            return float(np.nextafter(self.scores[-1], np.inf))
        return float(self.scores[[max(place - 1, 0), place]].mean())


def least_count(rate: float) -> int:
    """Returns how many there have to be, so that one of them is no more than a rate."""
    # But for rounding: 1 / 0.1 of a float is 10.
    return math.ceil(1 / rate - 1e-6)


# Similarities are rounded to multiples of 1 / STEPS, nearly 10^-6: those that differ by less are ties elsewhere, too.
STEPS = 2**20
# By rounding, vectors may be a little longer than 1. The first bin is of what is no pair of different classes.
MARGIN = 2**10
CENTER = STEPS + MARGIN
BINS = 2 * CENTER + 1
# Distances are told apart up to so many lengths that nearly all vectors have, twice: outliers make no others equal.
LENGTHS, NEARLY_ALL = 16, 0.99
# Queries, and images of the gallery, that are compared at once.
ROWS, COLUMNS = 512, 8192


@dataclasses.dataclass(frozen=True)
class RetrievalPairs:
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
        """Creates the pairs of a task among the rows of embeddings `[N, d]`."""
        task.check(embeddings)
        queries, gallery = (rows[np.argsort(task.labels[rows], kind="stable")] for rows in (task.queries, task.gallery))
        return cls(queries, gallery, task, ExactVectors.of(embeddings, distance), distance == "euclidean")

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

        Those of the latter that are no pairs of different classes are 0. If `once`, pairs of two queries that are both
        in the gallery come once, and not both ways.
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
        places = np.empty(len(self.task.labels), np.int64)
        places[np.argsort(self.task.labels, kind="stable")] = np.arange(len(places))
        return places


@dataclasses.dataclass(frozen=True)
class ClassCounts:
    """Numbers of pairs of the queries of each class, from each threshold up to the next; each way a pair comes counts.

    Of `thresholds` `[K]`, ascending, the lowest accepts all pairs that matter. `positives` and `negatives` are `[C,
    K]`; `totals` `[2, C]` are the numbers of all pairs of each kind, those below the lowest threshold included.
    """

    thresholds: np.ndarray
    positives: np.ndarray
    negatives: np.ndarray
    totals: np.ndarray

    @classmethod
    def of(cls, pairs, thresholds):
        """Counts `RetrievalPairs` between ascending thresholds; `[C]` are the class numbers of their task."""
        # Of each bin, the number of thresholds that accept it; a column of its own for what is no pair.
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
    """Returns thresholds that divide pairs finely: by quantiles of both kinds, and by powers of the false accept rate.

    There are at most so many of each kind.
    """
    places = [0]
    for accepted in counts.accepted:
        places += np.searchsorted(-accepted, -np.linspace(0, accepted[0], number)).tolist()
    negatives = counts.accepted[1]
    places += np.searchsorted(-negatives, -np.geomspace(1, max(negatives[0], 1), number)).tolist()
    return counts.scores[np.unique(np.minimum(places, len(counts.scores) - 1))]

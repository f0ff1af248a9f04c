"""`ClassCounts`: how many pairs each class has between thresholds."""

import dataclasses

import numpy as np

from tfdml.evaluation.verification.pair_counts import PairCounts


@dataclasses.dataclass(frozen=True)
class ClassCounts:
    """Numbers of pairs of the queries of each class, from each threshold up to the next; each way a pair comes counts.

    Args:
        thresholds: `[K]`, ascending; the lowest accepts all pairs that matter.
        positives: `[C, K]` numbers of pairs of the same class.
        negatives: `[C, K]` numbers of pairs of different classes.
        totals: `[2, C]` numbers of all pairs of each kind, those below the lowest threshold included.
    """

    thresholds: np.ndarray
    positives: np.ndarray
    negatives: np.ndarray
    totals: np.ndarray

    @classmethod
    def of(cls, pairs, thresholds):
        """Counts `Pairs`, `[C]` being the class numbers of their `RetrievalTask`.

        Args:
            pairs: `Pairs`.
            thresholds: `[K]`, ascending.
        """
        # Of each bin, the number of thresholds that accept it; a column of its own for what is no pair.
        columns = len(thresholds) + 2
        cells = np.searchsorted(pairs.bins_of(thresholds), np.arange(pairs.bins), side="right")
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

    Args:
        counts: `PairCounts`.
        number: of thresholds of each kind.
    """
    places = [0]
    for accepted in counts.accepted:
        places += np.searchsorted(-accepted, -np.linspace(0, accepted[0], number)).tolist()
    negatives = counts.accepted[1]
    places += np.searchsorted(-negatives, -np.geomspace(1, max(negatives[0], 1), number)).tolist()
    return counts.scores[np.unique(np.minimum(places, len(counts.scores) - 1))]

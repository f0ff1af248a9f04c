"""`PairCounts`: how many pairs of the same class and of different classes have each similarity."""

import dataclasses
import functools
import math
from typing import Self

import numpy as np

from tfdml.evaluation.ranks.exact_vectors import tie_groups

# Rounding must not exclude a rate that is just reached.
ROUNDED = 1 + 1e-9


@dataclasses.dataclass(frozen=True)
class PairCounts:
    """Numbers of pairs by similarity. A threshold accepts the pairs that are at least as similar.

    Args:
        scores: `[S]` similarities, ascending, each once; minus the distance where pairs are compared by distance.
        positives: `[S]` number of pairs of the same class with this similarity.
        negatives: `[S]` number of pairs of different classes with it.
    """

    scores: np.ndarray
    positives: np.ndarray
    negatives: np.ndarray

    @classmethod
    def of_scores(cls, scores: np.ndarray, same: np.ndarray, tie: float = 0.0) -> Self:
        """Counts pairs one by one.

        Args:
            scores: `[P]` similarity of each pair.
            same: `[P]` booleans, whether it is of the same class.
            tie: by how much similarities may differ and count as equal; the lowest of them is then the score of all.
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

"""Metrics of verification, which decides about pairs: accuracy, ROC, TAR@FAR, equal error rate, and others."""

from typing import Annotated

import numpy as np

from tfdml.evaluation.metrics.base import PairMetric
from tfdml.evaluation.verification.pairs import ClassCounts, least_count
from tfdml.registry import register
from tfdml.registry.arguments import Count, number


@register("metric", "pair_accuracy")
class PairAccuracy(PairMetric):
    """Highest fraction of pairs that any single threshold classifies correctly.

    The value is optimistic, because the threshold is chosen on the same pairs.
    """

    def value(self, counts):
        return float(right_decisions(counts).max() / sum(counts.totals))


def right_decisions(counts):
    """Returns how many pairs each score as threshold decides correctly, `[S + 1]`; the last threshold accepts none."""
    positives, negatives = (np.append(each, 0) for each in counts.accepted)
    return positives + counts.totals[1] - negatives


@register("metric", "pair_accuracy_threshold")
class PairAccuracyThreshold(PairMetric):
    """Similarity threshold with the highest `pair_accuracy`.

    If pairs are compared by distance, the value is minus the distance. If several thresholds are equally accurate, the
    highest is used.
    """

    larger_is_better = False

    def value(self, counts):
        right = right_decisions(counts)
        return counts.above(len(right) - 1 - int(np.argmax(right[::-1])))


@register("metric", "pair_average_precision")
class PairAveragePrecision(PairMetric):
    """Average precision over all pairs.

    This is the mean over pairs of the same class of the precision at the threshold that just accepts the pair.
    """

    def value(self, counts):
        positives, negatives = counts.accepted
        # In resamples, some scores may have no pairs.
        accepted = np.where(positives > 0, positives + negatives, 1)
        return float(np.sum(counts.positives * (positives / accepted)) / counts.totals[0])


# Number of rows that are compared with others at once.
ROWS = 256


def squared_pair_distances(points, labels=None):
    """Yields the squared distances of pairs of the same class, each pair once, in float64 blocks `[P]`.

    Without labels, all points `[N, d]` count as one class.
    """
    labels = np.zeros(len(points)) if labels is None else np.asarray(labels)
    order = np.argsort(labels, kind="stable")
    points, labels = np.asarray(points)[order], labels[order]
    ends = np.searchsorted(labels, labels, side="right")
    for start in range(0, len(points), ROWS):
        rows = slice(start, min(start + ROWS, len(points)))
        # Up to the end of the last row's class. Earlier rows have been compared already.
        others = slice(start, ends[rows.stop - 1])
        pairs = np.triu(labels[rows, None] == labels[others], 1)
        if pairs.any():
            # Relative to the first row, so that distances are exactly 0 if all rows are equal.
            origin = np.asarray(points[0], np.float64)
            yield squared_distances(points[rows] - origin, points[others] - origin)[pairs]


def squared_distances(points, others):
    """Returns squared distances `[A, B]` between points `[A, d]` and others `[B, d]`, in float64."""
    points, others = np.asarray(points, np.float64), np.asarray(others, np.float64)
    found = np.add.outer(*(np.einsum("nd,nd->n", each, each) for each in (points, others)))
    # In place, because these arrays can be large.
    products = points @ others.T
    products *= 2
    found -= products
    return np.maximum(found, 0.0, out=found)


@register("metric", "roc_auc")
class RocAUC(PairMetric):
    """Area under the ROC curve over all pairs.

    This is the probability that a pair of the same class is more similar than a pair of different classes. Ties count
    half.
    """

    def value(self, counts):
        accepts, trues = counts.rates
        return float(np.sum(np.diff(accepts) * (trues[1:] + trues[:-1])) / 2)


@register("metric", "tar_at_far")
class TarAtFar(PairMetric):
    """Fraction of pairs of the same class that are accepted at a fixed false accept rate (TAR@FAR).

    The threshold accepts as many pairs as possible while its false accept rate is at most `rate`. The value is None,
    with a warning, if a single pair of different classes exceeds that rate. 1 minus the value is FNMR@FMR, the false
    non-match rate.

    Args:
        rate: Float from 0.000001 to 0.1. The false accept rate. `tar_at_far_0.001` is short for
            `tar_at_far(rate=0.001)`.
    """

    rate: Annotated[float, number(at_least=1e-6, at_most=0.1)]

    @property
    def name(self) -> str:
        return f"tar_at_far_{self.rate:g}".replace("e-0", "e-")

    @property
    def negatives_needed(self) -> int:
        return least_count(self.rate)

    def value(self, counts):
        return float(counts.trues_at(self.rate))


# Smaller deviations are rounding errors.
SMALLEST = 1e-9


@register("metric", "d_prime")
class DPrime(PairMetric):
    """Distance between the mean similarities of pairs of the same and of different classes, in standard deviations.

    This is the difference of the means, divided by the root of the mean of both variances. The value is None if neither
    varies.
    """

    def value(self, counts):
        kinds = counts.positives, counts.negatives
        means = [np.average(counts.scores, weights=kind) for kind in kinds]
        squares = ((counts.scores - mean) ** 2 for mean in means)
        variances = [np.average(each, weights=kind) for each, kind in zip(squares, kinds, strict=True)]
        deviation = np.sqrt(sum(variances) / 2)
        return float((means[0] - means[1]) / deviation) if deviation > SMALLEST else None


@register("metric", "equal_error_rate")
class EqualErrorRate(PairMetric):
    """Error rate at the threshold with equal false accept and false reject rates.

    Rates are interpolated linearly between thresholds.
    """

    larger_is_better = False

    def value(self, counts):
        accepts, trues = counts.rates
        surplus = accepts - (1 - trues)
        # It rises from -1, if nothing is accepted, to 1.
        after = int(np.argmax(surplus >= 0))
        part = -surplus[after - 1] / (surplus[after] - surplus[after - 1])
        return float(accepts[after - 1] + part * (accepts[after] - accepts[after - 1]))


Rate = Annotated[float, number(above=0, below=1)]


@register("metric", "opis")
class OPIS(PairMetric):
    """Variance over classes of how well one common threshold works for each: 0 if it works equally well for all.

    The operating-point-inconsistency score of "Threshold-Consistent Margin Loss for Open-World Deep Metric Learning"
    (ICLR 2024), averaged over thresholds. How well a threshold works for a class is the harmonic mean of two fractions:
    the pairs of the class that it accepts, and the pairs of the class's queries with other classes that it rejects. The
    thresholds have equal steps of distance, between the thresholds with false accept rates `low` and `high` over all
    pairs. Classes without a pair are left out.

    Args:
        low: Float. False accept rate of the strictest threshold. Defaults to `0.01`.
        high: Float. False accept rate of the most lenient threshold. Defaults to `0.1`.
        steps: Integer. Number of thresholds. Defaults to `100`.
    """

    low: Rate = 0.01
    high: Rate = 0.1
    steps: Count = 100

    larger_is_better = False
    # It needs the counts of each class.
    of_counts = False

    def check_arguments(self):
        if self.low > self.high:
            raise ValueError(f"low must be at most high. Received: low={self.low} and high={self.high}.")

    def value_of_pairs(self, pairs):
        if not self.is_defined(pairs.counts):
            return None
        return float(np.mean(np.var(self._served(pairs)[1], axis=0)))

    def of_draws(self, pairs):
        """Returns a function that computes the variance over the classes of a bootstrap resample.

        Rates and thresholds are computed from all classes.
        """
        known, served = self._served(pairs)

        def value(counts, times):
            weights = times[known] / max(times[known].sum(), 1)
            means = weights @ served
            return float(np.mean(weights @ (served - means) ** 2)) if weights.any() else None

        return value

    def _served(self, pairs):
        """Returns which classes have pairs, `[C]`, and how well each threshold works for these, `[classes, steps]`."""
        strict, lenient = (pairs.counts.above(pairs.counts.place_at(rate)) for rate in (self.low, self.high))
        parts = (np.arange(self.steps) + 0.5) / self.steps
        if pairs.euclidean:
            thresholds = lenient + parts * (strict - lenient)
        else:
            near, far = (np.sqrt(max(2 - 2 * score, 0.0)) for score in (strict, lenient))
            thresholds = 1 - (far + parts * (near - far)) ** 2 / 2
        counts = ClassCounts.of(pairs, thresholds)
        known = (counts.totals > 0).all(axis=0)
        accepts, falses = counts.accepted()[:, known] / counts.totals[:, known, None]
        rejects = 1 - falses
        total = accepts + rejects
        return known, 2 * accepts * rejects / np.where(total > 0, total, 1.0)

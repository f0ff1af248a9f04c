"""Operating-point-inconsistency score."""

from typing import Annotated

import numpy as np

from tfdml.evaluation.metrics.pair_metric import PairMetric
from tfdml.evaluation.verification.class_counts import ClassCounts
from tfdml.registry import register
from tfdml.registry.arguments import Count, number

Rate = Annotated[float, number(above=0, below=1)]


@register("metric", "opis")
class OPIS(PairMetric):
    """The variance over classes of how well one threshold serves each, averaged over thresholds: 0 if alike.

    The operating-point-inconsistency score of "Threshold-Consistent Margin Loss for Open-World Deep Metric Learning"
    (ICLR 2024). A class is served by the harmonic mean of two fractions: of its pairs that the threshold accepts, and
    of the pairs of its queries with other classes that it rejects. Thresholds are at equal steps of distance between
    those of two false accept rates over all pairs. Classes without a pair are left out.

    Args:
        low: false accept rate of the strictest threshold.
        high: false accept rate of the most lenient one.
        steps: number of thresholds.
    """

    low: Rate = 0.01
    high: Rate = 0.1
    steps: Count = 100

    larger_is_better = False
    # It needs those of each class.
    of_counts = False

    def check_arguments(self):
        if self.low > self.high:
            raise ValueError(f"Expected low to be no more than high; received {self.low} and {self.high}.")

    def value_of_pairs(self, pairs):
        if not self.is_defined(pairs.counts):
            return None
        return float(np.mean(np.var(self._served(pairs)[1], axis=0)))

    def of_draws(self, pairs):
        """Returns the variance over the classes that are drawn; their rates and thresholds are those of all classes."""
        known, served = self._served(pairs)

        def value(counts, times):
            weights = times[known] / max(times[known].sum(), 1)
            means = weights @ served
            return float(np.mean(weights @ (served - means) ** 2)) if weights.any() else None

        return value

    def _served(self, pairs):
        """Returns which classes have pairs, `[C]`, and how well each threshold serves these, `[classes, steps]`."""
        counts = ClassCounts.of(pairs, self._thresholds(pairs))
        known = (counts.totals > 0).all(axis=0)
        accepts, falses = counts.accepted()[:, known] / counts.totals[:, known, None]
        return known, harmonic_mean(accepts, 1 - falses)

    def _thresholds(self, pairs):
        strict, lenient = (pairs.counts.above(pairs.counts.place_at(rate)) for rate in (self.low, self.high))
        parts = (np.arange(self.steps) + 0.5) / self.steps
        if pairs.euclidean:
            return lenient + parts * (strict - lenient)
        near, far = (np.sqrt(max(2 - 2 * score, 0.0)) for score in (strict, lenient))
        return 1 - (far + parts * (near - far)) ** 2 / 2


def harmonic_mean(first, second):
    """Returns the harmonic means of fractions; 0 of zeros."""
    total = first + second
    return 2 * first * second / np.where(total > 0, total, 1.0)

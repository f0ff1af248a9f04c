"""d'."""

import numpy as np

from tfdml.evaluation.metrics.pair_metric import PairMetric
from tfdml.registry import register

# What rounding leaves of no deviation.
SMALLEST = 1e-9


@register("metric", "d_prime")
class DPrime(PairMetric):
    """How far apart the mean similarities of pairs of the same and of different classes are, in standard deviations.

    The difference of the means, over the root of the mean of both variances. None if neither varies.
    """

    def value(self, counts):
        means, variances = zip(
            *(_moments(counts.scores, each) for each in (counts.positives, counts.negatives)), strict=True
        )
        deviation = np.sqrt(sum(variances) / 2)
        return float((means[0] - means[1]) / deviation) if deviation > SMALLEST else None


def _moments(values, counts):
    mean = np.average(values, weights=counts)
    return mean, np.average((values - mean) ** 2, weights=counts)

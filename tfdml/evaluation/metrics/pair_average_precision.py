"""Average precision over pairs."""

import numpy as np

from tfdml.evaluation.metrics.pair_metric import PairMetric
from tfdml.registry import register


@register("metric", "pair_average_precision")
class PairAveragePrecision(PairMetric):
    """The mean over pairs of the same class of the precision of the threshold that just accepts the pair."""

    def value(self, counts):
        positives, negatives = counts.accepted
        return float(np.sum(counts.positives * (positives / (positives + negatives))) / counts.totals[0])

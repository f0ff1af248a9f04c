"""Average precision over pairs."""

import numpy as np

from tfdml.evaluation.metrics.pair_metric import PairMetric
from tfdml.registry import register


@register("metric", "pair_average_precision")
class PairAveragePrecision(PairMetric):
    """The mean over pairs of the same class of the precision of the threshold that just accepts the pair."""

    def value(self, counts):
        positives, negatives = counts.accepted
        # Scores of resamples may have no pairs.
        accepted = np.where(positives > 0, positives + negatives, 1)
        return float(np.sum(counts.positives * (positives / accepted)) / counts.totals[0])

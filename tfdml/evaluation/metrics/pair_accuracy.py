"""Accuracy of decisions about pairs."""

import numpy as np

from tfdml.evaluation.metrics.pair_metric import PairMetric
from tfdml.registry import register


@register("metric", "pair_accuracy")
class PairAccuracy(PairMetric):
    """The highest fraction of pairs that any threshold decides rightly; optimistic, chosen on the same pairs."""

    def value(self, counts):
        return float(right_decisions(counts).max() / sum(counts.totals))


def right_decisions(counts):
    """Returns how many pairs each score as threshold, and last one above all, decides rightly, `[S + 1]`."""
    positives, negatives = (np.append(each, 0) for each in counts.accepted)
    return positives + counts.totals[1] - negatives

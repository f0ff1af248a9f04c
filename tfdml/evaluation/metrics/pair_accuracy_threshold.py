"""The threshold of `pair_accuracy`."""

import numpy as np

from tfdml.evaluation.metrics.pair_accuracy import right_decisions
from tfdml.evaluation.metrics.pair_metric import PairMetric
from tfdml.registry import register


@register("metric", "pair_accuracy_threshold")
class PairAccuracyThreshold(PairMetric):
    """The similarity from which pairs are accepted for the highest `pair_accuracy`; of distances, minus the distance.

    Of several, the highest.
    """

    larger_is_better = False

    def value(self, counts):
        right = right_decisions(counts)
        return counts.above(len(right) - 1 - int(np.argmax(right[::-1])))

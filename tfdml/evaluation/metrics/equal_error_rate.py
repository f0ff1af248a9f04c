"""Equal error rate."""

import numpy as np

from tfdml.evaluation.metrics.pair_metric import PairMetric
from tfdml.registry import register


@register("metric", "equal_error_rate")
class EqualErrorRate(PairMetric):
    """The rate at which false accepts are as frequent as false rejects, on straight lines between thresholds."""

    larger_is_better = False

    def value(self, counts):
        accepts, trues = counts.rates
        surplus = accepts - (1 - trues)
        # It rises from -1, where nothing is accepted, to 1.
        after = int(np.argmax(surplus >= 0))
        part = -surplus[after - 1] / (surplus[after] - surplus[after - 1])
        return float(accepts[after - 1] + part * (accepts[after] - accepts[after - 1]))

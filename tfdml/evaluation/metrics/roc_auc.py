"""Area under the ROC curve."""

import numpy as np

from tfdml.evaluation.metrics.pair_metric import PairMetric
from tfdml.registry import register


@register("metric", "roc_auc")
class RocAUC(PairMetric):
    """The probability that a pair of the same class is more similar than one of different classes; ties count half."""

    def value(self, counts):
        accepts, trues = counts.rates
        return float(np.sum(np.diff(accepts) * (trues[1:] + trues[:-1])) / 2)

"""R-precision."""

import numpy as np

from tfdml.evaluation.metrics.rank_metric import RankMetric
from tfdml.registry import register


@register("metric", "r_precision")
class RPrecision(RankMetric):
    """The fraction of positives among the R nearest, where R is the query's number of positives."""

    def depth(self, positives):
        return positives

    def per_query(self, ranks):
        within = (ranks.ranks > 0) & (ranks.ranks <= ranks.positives[:, None])
        return np.sum(within, axis=1) / ranks.positives

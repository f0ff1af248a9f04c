"""Precision@K."""

import numpy as np

from tfdml.evaluation.metrics.rank_metric import RankMetric
from tfdml.registry import register
from tfdml.registry.arguments import Count


@register("metric", "precision_at_k")
class PrecisionAtK(RankMetric):
    """The fraction of positives among the K nearest. It cannot reach 1 for a query with fewer than K positives.

    Args:
        k: number of neighbors.
    """

    k: Count

    @property
    def name(self) -> str:
        return f"precision_at_{self.k}"

    def depth(self, positives):
        return self.k

    def per_query(self, ranks):
        return np.sum((ranks.ranks > 0) & (ranks.ranks <= self.k), axis=1) / self.k

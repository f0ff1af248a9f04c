"""Recall@K."""

from tfdml.evaluation.metrics.rank_metric import RankMetric
from tfdml.registry.arguments import integer
from tfdml.registry.parts import register


@register("metric", "recall_at_k", k=integer(1))
class RecallAtK(RankMetric):
    """The fraction of queries with a positive among the K nearest.

    Args:
        k: number of neighbors.
    """

    first_only = True

    def __init__(self, k: int):
        self.name, self.k = f"recall_at_{k}", k

    def depth(self, positives):
        return self.k

    def per_query(self, ranks):
        return ranks.first <= self.k

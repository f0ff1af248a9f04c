"""Recall@K."""

from tfdml.evaluation.metrics.rank_metric import RankMetric
from tfdml.registry import Count, register


@register("metric", "recall_at_k")
class RecallAtK(RankMetric):
    """The fraction of queries with a positive among the K nearest.

    Args:
        k: number of neighbors.
    """

    k: Count

    first_only = True

    @property
    def name(self):
        return f"recall_at_{self.k}"

    def depth(self, positives):
        return self.k

    def per_query(self, ranks):
        return ranks.first <= self.k

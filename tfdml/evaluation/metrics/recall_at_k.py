"""Recall@K."""

from tfdml.evaluation.metrics.rank_metric import RankMetric
from tfdml.registry import register
from tfdml.registry.arguments import Count


@register("metric", "recall_at_k")
class RecallAtK(RankMetric):
    """The fraction of queries with a positive among the K nearest.

    Args:
        k: number of neighbors.
    """

    k: Count

    @property
    def name(self) -> str:
        return f"recall_at_{self.k}"

    first_only = True

    def depth(self, positives):
        return self.k

    def per_query(self, ranks):
        return ranks.first <= self.k

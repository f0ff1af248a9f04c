"""Mean reciprocal rank."""

from tfdml.evaluation.metrics.rank_metric import RankMetric
from tfdml.registry import register


@register("metric", "mrr")
class MeanReciprocalRank(RankMetric):
    """The mean of 1 / the rank of the first positive."""

    first_only = True

    def per_query(self, ranks):
        return 1 / ranks.first

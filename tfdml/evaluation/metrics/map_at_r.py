"""MAP@R."""

from tfdml.evaluation.metrics.rank_metric import RankMetric
from tfdml.registry import register


@register("metric", "map_at_r")
class MAPAtR(RankMetric):
    """The mean of the precisions at the positives among the R nearest; a positive that is not among them counts as 0.

    R is the query's number of positives. From "A Metric Learning Reality Check" (ECCV 2020), section 3.2.
    """

    def depth(self, positives):
        return positives

    def per_query(self, ranks):
        within = ranks.ranks <= ranks.positives[:, None]
        return ranks.mean_over_positives(ranks.precisions() * within)

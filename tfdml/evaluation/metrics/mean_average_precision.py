"""Mean average precision."""

import numpy as np

from tfdml.evaluation.metrics.rank_metric import RankMetric
from tfdml.registry import register


@register("metric", "map")
class MeanAveragePrecision(RankMetric):
    """The mean of the precisions at all positives of a query: mAP.

    Args:
        trapezoid: True to average each precision with the precision just before the positive, as the official code of
            Market-1501 and Oxford5k does; the result is slightly lower or higher.
    """

    trapezoid: bool = False

    @property
    def name(self) -> str:
        return "map_trapezoid" if self.trapezoid else "map"

    def per_query(self, ranks):
        precisions = ranks.precisions()
        if self.trapezoid:
            precisions = (precisions + self._before(ranks)) / 2
        return ranks.mean_over_positives(precisions)

    def _before(self, ranks):
        """`[B, P]`: the precision without the positive itself; 1 before the first rank."""
        found = np.arange(ranks.ranks.shape[1])
        before = np.where(ranks.ranks > 1, found / np.maximum(ranks.ranks - 1, 1), 1.0)
        return np.where(ranks.ranks > 0, before, 0.0)

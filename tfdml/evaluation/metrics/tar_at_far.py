"""TAR@FAR."""

from typing import Annotated

from tfdml.evaluation.metrics.pair_metric import PairMetric
from tfdml.evaluation.verification.pair_counts import least_count
from tfdml.registry import register
from tfdml.registry.arguments import number


@register("metric", "tar_at_far")
class TarAtFar(PairMetric):
    """The fraction of pairs of the same class that a threshold accepts which accepts few others.

    The false accept rate is at most `rate`. None, with a warning, where one pair of different classes is more than
    that. 1 minus it is FNMR@FMR, the false non-match rate.

    Args:
        rate: the false accept rate, from 0.000001 to 0.1; `tar_at_far_0.001` is short for `tar_at_far(rate=0.001)`.
    """

    rate: Annotated[float, number(at_least=1e-6, at_most=0.1)]

    @property
    def name(self) -> str:
        return f"tar_at_far_{self.rate:g}".replace("e-0", "e-")

    @property
    def negatives_needed(self) -> int:
        return least_count(self.rate)

    def value(self, counts):
        return float(counts.trues_at(self.rate))

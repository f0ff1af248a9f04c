"""The cumulative matching characteristic of re-identification."""

from tfdml.evaluation.metrics.recall_at_k import RecallAtK
from tfdml.registry import register


@register("metric", "cmc_at_k")
class CMCAtK(RecallAtK):
    """The fraction of queries with a positive among the K nearest: Recall@K, as re-identification calls it.

    Args:
        k: rank, from 1.
    """

    @property
    def name(self) -> str:
        return f"cmc_at_{self.k}"

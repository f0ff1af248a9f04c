"""The cumulative matching characteristic of re-identification."""

from tfdml.evaluation.metrics.recall_at_k import RecallAtK
from tfdml.registry.arguments import integer
from tfdml.registry.parts import register


@register("metric", "cmc_at_k", k=integer(1))
class CMCAtK(RecallAtK):
    """The fraction of queries with a positive among the K nearest: Recall@K, as re-identification calls it.

    Args:
        k: rank, from 1.
    """

    def __init__(self, k: int):
        super().__init__(k)
        self.name = f"cmc_at_{k}"

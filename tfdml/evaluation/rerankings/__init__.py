"""Rerankings, which improve rankings by similarity. The `reranking` of a protocol names one."""

from tfdml.evaluation.rerankings.k_reciprocal import KReciprocal
from tfdml.evaluation.rerankings.random_walk import RandomWalk
from tfdml.evaluation.rerankings.reranking import DatabaseAugmentation, QueryExpansion, Reranking
from tfdml.evaluation.rerankings.super_global import SuperGlobal

__all__ = ["DatabaseAugmentation", "KReciprocal", "QueryExpansion", "RandomWalk", "Reranking", "SuperGlobal"]

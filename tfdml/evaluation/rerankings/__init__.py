"""Better rankings than by the similarity of two images; a protocol's `reranking` names one."""

from tfdml.evaluation.rerankings.k_reciprocal import KReciprocal
from tfdml.evaluation.rerankings.random_walk import RandomWalk
from tfdml.evaluation.rerankings.reranking import DatabaseAugmentation, QueryExpansion, Reranking

__all__ = ["DatabaseAugmentation", "KReciprocal", "QueryExpansion", "RandomWalk", "Reranking"]

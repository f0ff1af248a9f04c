"""Evaluation of embeddings."""

from tfdml.evaluation.cost import cost
from tfdml.evaluation.diversity import diversity
from tfdml.evaluation.embed import Embedder
from tfdml.evaluation.protocols import query_gallery, random_gallery, self_retrieval
from tfdml.evaluation.retrieval import recall_at_k

__all__ = ["Embedder", "cost", "diversity", "query_gallery", "random_gallery", "recall_at_k", "self_retrieval"]

"""Measuring embeddings."""

from tfdml.evaluation.embed import Embedder
from tfdml.evaluation.retrieval import recall_at_k

__all__ = ["Embedder", "recall_at_k"]

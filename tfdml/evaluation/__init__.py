"""Evaluation of embeddings."""

from tfdml.evaluation.cost import cost
from tfdml.evaluation.diversity import diversity
from tfdml.evaluation.embedder import Embedder
from tfdml.evaluation.evaluate import evaluate

__all__ = ["Embedder", "cost", "diversity", "evaluate"]

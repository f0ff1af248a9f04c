"""Evaluation of embeddings."""

import importlib
from typing import TYPE_CHECKING

from tfdml.evaluation.cost import cost
from tfdml.evaluation.diversity import diversity
from tfdml.evaluation.evaluate import evaluate

if TYPE_CHECKING:
    from tfdml.evaluation.embedder import Embedder

__all__ = ["Embedder", "cost", "diversity", "evaluate"]


def __getattr__(name):
    if name == "Embedder":
        # On first access, because it imports TensorFlow, which evaluates nothing.
        return importlib.import_module("tfdml.evaluation.embedder").Embedder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

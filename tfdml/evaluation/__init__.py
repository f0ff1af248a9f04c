"""Evaluation of embeddings."""

from typing import TYPE_CHECKING

from tfdml.evaluation.cost import cost
from tfdml.evaluation.diversity import diversity
from tfdml.evaluation.evaluate import evaluate

__all__ = ["Embedder", "cost", "diversity", "evaluate"]

if TYPE_CHECKING:
    from tfdml.evaluation.embedder import Embedder
else:

    def __getattr__(name):
        # On first access, because its import of TensorFlow takes seconds that evaluating files does not need.
        if name == "Embedder":
            from tfdml.evaluation.embedder import Embedder

            return Embedder
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Evaluation of embeddings with retrieval, pair and cluster metrics."""

from typing import TYPE_CHECKING

from tfdml.evaluation.cost import cost
from tfdml.evaluation.diversity import diversity
from tfdml.evaluation.evaluate import evaluate
from tfdml.evaluation.image_text import image_text_recall

__all__ = ["Embedder", "cost", "diversity", "evaluate", "image_text_recall"]

if TYPE_CHECKING:
    from tfdml.evaluation.embedder import Embedder
else:

    def __getattr__(name):
        # Imported on first access: TensorFlow takes seconds to load, and evaluating embedding files does not need it.
        if name == "Embedder":
            from tfdml.evaluation.embedder import Embedder

            return Embedder
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

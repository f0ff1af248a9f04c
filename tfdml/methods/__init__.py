"""Methods: how images become learner embeddings, and how these are trained."""

from tfdml.methods.embedding_model import EmbeddingModel
from tfdml.methods.single import Single

__all__ = ["EmbeddingModel", "Single"]

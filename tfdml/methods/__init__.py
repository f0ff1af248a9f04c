"""Methods: how images become learner embeddings, and how these are trained."""

from tfdml.methods.divide_and_conquer import DivideAndConquer
from tfdml.methods.embedding_model import EmbeddingModel
from tfdml.methods.multilevel import Multilevel
from tfdml.methods.single import Single

__all__ = ["DivideAndConquer", "EmbeddingModel", "Multilevel", "Single"]

"""Methods: Keras models that map images to embeddings and train them with a loss."""

from tfdml.methods.divide_and_conquer import DivideAndConquer
from tfdml.methods.embedding_model import EmbeddingModel
from tfdml.methods.ensembles import AttentionEnsemble, MemberEnsemble
from tfdml.methods.heads import Features, Joined, MultiHead, Multilevel, MultiTail, Single
from tfdml.methods.two_streams import TwoStreams
from tfdml.methods.two_towers import TwoTowers

__all__ = [
    "AttentionEnsemble",
    "DivideAndConquer",
    "EmbeddingModel",
    "Features",
    "Joined",
    "MemberEnsemble",
    "MultiHead",
    "MultiTail",
    "Multilevel",
    "Single",
    "TwoStreams",
    "TwoTowers",
]

"""Methods: how images become learner embeddings, and how these are trained."""

from tfdml.methods.attention_ensemble import AttentionEnsemble
from tfdml.methods.divide_and_conquer import DivideAndConquer
from tfdml.methods.embedding_model import EmbeddingModel
from tfdml.methods.features import Features
from tfdml.methods.joined import Joined
from tfdml.methods.member_ensemble import MemberEnsemble
from tfdml.methods.multi_head import MultiHead
from tfdml.methods.multi_tail import MultiTail
from tfdml.methods.multilevel import Multilevel
from tfdml.methods.single import Single

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
]

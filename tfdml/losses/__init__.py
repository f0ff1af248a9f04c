"""Losses: one a file, a pure function and its Keras class."""

from tfdml.losses.contrastive import Contrastive, contrastive_loss
from tfdml.losses.embedding_loss import EmbeddingLoss
from tfdml.losses.proxy_loss import ProxyLoss
from tfdml.losses.proxy_nca import ProxyNCA, proxy_nca_loss
from tfdml.losses.triplet import Triplet, triplet_loss

__all__ = [
    "Contrastive",
    "EmbeddingLoss",
    "ProxyLoss",
    "ProxyNCA",
    "Triplet",
    "contrastive_loss",
    "proxy_nca_loss",
    "triplet_loss",
]

"""Losses: one a file, a pure function and its Keras class."""

from tfdml.losses.contrastive import Contrastive, contrastive_loss
from tfdml.losses.embedding_loss import EmbeddingLoss
from tfdml.losses.triplet import Triplet, triplet_loss

__all__ = ["Contrastive", "EmbeddingLoss", "Triplet", "contrastive_loss", "triplet_loss"]

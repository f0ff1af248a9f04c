"""Memories: what embeddings of past batches a batch is compared with."""

from tfdml.methods.memories.agreement import Agreement
from tfdml.methods.memories.momentum import Momentum
from tfdml.methods.memories.xbm import XBM

__all__ = ["XBM", "Agreement", "Momentum"]

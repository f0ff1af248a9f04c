"""Layers that methods are made of, and those that hold the variables of losses."""

from tfdml.layers.class_margins import ClassMargins
from tfdml.layers.embedding_head import EmbeddingHead
from tfdml.layers.proxies import Proxies

__all__ = ["ClassMargins", "EmbeddingHead", "Proxies"]

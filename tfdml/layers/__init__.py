"""Layers that methods are made of."""

from tfdml.layers.embedding_head import EmbeddingHead

__all__ = ["EmbeddingHead"]

"""Layers that methods are made of, and those that hold the variables of losses."""

from tfdml.layers.class_margins import ClassMargins
from tfdml.layers.embedding_head import EmbeddingHead
from tfdml.layers.multilevel_embedding import MultilevelEmbedding
from tfdml.layers.pooled_features import PooledFeatures
from tfdml.layers.pooling import Pooling
from tfdml.layers.proxies import Proxies
from tfdml.layers.split_embedding import SplitEmbedding

__all__ = [
    "ClassMargins",
    "EmbeddingHead",
    "MultilevelEmbedding",
    "PooledFeatures",
    "Pooling",
    "Proxies",
    "SplitEmbedding",
]

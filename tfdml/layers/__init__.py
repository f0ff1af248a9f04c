"""Keras layers: pooling, embeddings and norms for models, and layers with the variables of losses."""

from tfdml.layers.embedding import EmbeddingHead, MultilevelEmbedding, SplitEmbedding
from tfdml.layers.loss_layer import LossLayer
from tfdml.layers.mixing import MixingShares
from tfdml.layers.norms import DropPath, LocalResponseNorm, freeze_batch_norm
from tfdml.layers.pooling import CeilAveragePooling, CeilMaxPooling, PooledFeatures, Pooling
from tfdml.layers.proxies import (
    ClassMargins,
    ManifoldProxies,
    Proxies,
    ProxiesWithLengths,
    SampledProxies,
    ShardedProxies,
)
from tfdml.layers.references import BesideReference
from tfdml.layers.tokens import AttentionMasks, CenterMerging, TokenFeatures
from tfdml.layers.view_heads import Predictor, Projector

__all__ = [
    "AttentionMasks",
    "BesideReference",
    "CeilAveragePooling",
    "CeilMaxPooling",
    "CenterMerging",
    "ClassMargins",
    "DropPath",
    "EmbeddingHead",
    "LocalResponseNorm",
    "LossLayer",
    "ManifoldProxies",
    "MixingShares",
    "MultilevelEmbedding",
    "PooledFeatures",
    "Pooling",
    "Predictor",
    "Projector",
    "Proxies",
    "ProxiesWithLengths",
    "SampledProxies",
    "ShardedProxies",
    "SplitEmbedding",
    "TokenFeatures",
    "freeze_batch_norm",
]

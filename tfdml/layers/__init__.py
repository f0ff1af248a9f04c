"""Layers of methods, and layers with the variables of losses."""

from tfdml.layers.attention_masks import AttentionMasks
from tfdml.layers.ceil_average_pooling import CeilAveragePooling
from tfdml.layers.ceil_max_pooling import CeilMaxPooling
from tfdml.layers.center_merging import CenterMerging
from tfdml.layers.class_margins import ClassMargins
from tfdml.layers.embedding_head import EmbeddingHead
from tfdml.layers.frozen_batch_norm import freeze_batch_norm
from tfdml.layers.local_response_norm import LocalResponseNorm
from tfdml.layers.loss_layer import LossLayer
from tfdml.layers.manifold_proxies import ManifoldProxies
from tfdml.layers.multilevel_embedding import MultilevelEmbedding
from tfdml.layers.pooled_features import PooledFeatures
from tfdml.layers.pooling import Pooling
from tfdml.layers.predictor import Predictor
from tfdml.layers.projector import Projector
from tfdml.layers.proxies import Proxies
from tfdml.layers.sampled_proxies import SampledProxies
from tfdml.layers.sharded_proxies import ShardedProxies
from tfdml.layers.split_embedding import SplitEmbedding
from tfdml.layers.token_features import TokenFeatures

__all__ = [
    "AttentionMasks",
    "CeilAveragePooling",
    "CeilMaxPooling",
    "CenterMerging",
    "ClassMargins",
    "EmbeddingHead",
    "LocalResponseNorm",
    "LossLayer",
    "ManifoldProxies",
    "MultilevelEmbedding",
    "PooledFeatures",
    "Pooling",
    "Predictor",
    "Projector",
    "Proxies",
    "SampledProxies",
    "ShardedProxies",
    "SplitEmbedding",
    "TokenFeatures",
    "freeze_batch_norm",
]

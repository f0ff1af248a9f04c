"""The head of most papers: pooling and a linear layer."""

from tfdml.heads.head import Head
from tfdml.layers.pooled_features import Dropout, PooledFeatures
from tfdml.registry import register
from tfdml.registry.arguments import FeatureNorm, PoolingKind


@register("head", "linear")
class Linear(Head):
    """Pools features, then applies a norm and dropout, before the linear layer.

    Args:
        pooling: `avg`, `max`, `avg+max`, `gem` or `first`, see `tfdml.layers.Pooling`.
        norm: `none`, `batch` (batch normalization) or `layer` (layer normalization).
        dropout: fraction of features to drop in training.
    """

    pooling: PoolingKind = "avg"
    norm: FeatureNorm = "none"
    dropout: Dropout = 0.0

    def make_layer(self, **kwargs):
        return PooledFeatures(self.pooling, self.norm, self.dropout, **kwargs)

"""Heads: what a method does with the features of a backbone before its linear layer."""

from collections.abc import Mapping
from typing import Any, Self

import keras

from tfdml.layers.pooling import Dropout, PooledFeatures
from tfdml.registry import register
from tfdml.registry.arguments import FeatureNorm, PoolingKind
from tfdml.registry.fields import Value


class Head(Value):
    """Creates the layers between a backbone's features and a method's linear layer.

    A method may need several: one for each learner or level. The fields of a subclass are the arguments of
    its spec, and are saved with the model.
    """

    def make_layer(self, **kwargs: Any) -> keras.layers.Layer:
        """Returns a new Keras layer from features `[B, h, w, c]`, `[B, tokens, c]` or `[B, c]` to `[B, n]`.

        Args:
            **kwargs: Keras' arguments of a layer: its `name`.
        """
        raise NotImplementedError(f"{type(self).__name__} needs the method make_layer(**kwargs).")

    def get_config(self) -> dict[str, Any]:
        return self.own_config()

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        return cls(**config)


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


__all__ = ["Head", "Linear"]

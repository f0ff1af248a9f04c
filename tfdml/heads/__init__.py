"""Heads: the layers between the features of a backbone and the linear layer of a method."""

from collections.abc import Mapping
from typing import Any, Self

import keras

from tfdml.layers.pooling import Dropout, PooledFeatures
from tfdml.registry import register
from tfdml.registry.arguments import FeatureNorm, PoolingKind
from tfdml.registry.fields import Value


class Head(Value):
    """Base class of heads, which create the layers between the features of a backbone and a linear layer.

    Subclass it to write your own head. A method may create several layers with one head: one for each learner or
    feature level. The fields of a subclass are the arguments of its spec and are saved with the model.

    Example:

    ```python
    class Flat(tfdml.heads.Head):
        def make_layer(self, **kwargs):
            return keras.layers.Flatten(**kwargs)


    model = tfdml.Single(tfdml.backbones.Small(width=4), embedding_size=16, head=Flat())
    model(np.random.uniform(-2, 2, (2, 48, 48, 3))).shape  # (2, 16)
    ```
    """

    def make_layer(self, **kwargs: Any) -> keras.layers.Layer:
        """Creates a Keras layer from features `[B, h, w, c]`, `[B, tokens, c]` or `[B, c]` to `[B, n]`.

        Args:
            **kwargs: Arguments of `keras.layers.Layer`, such as `name`.

        Returns:
            Keras layer.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement the method make_layer(**kwargs).")

    def get_config(self) -> dict[str, Any]:
        return self.own_config()

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        return cls(**config)


@register("head", "linear")
class Linear(Head):
    """Head that pools the features and then applies normalization and dropout, before the linear layer.

    Args:
        pooling: How features are pooled over positions: `"avg"`, `"max"`, `"avg+max"`, `"gem"` or `"first"`, see
            `tfdml.layers.Pooling`. Defaults to `"avg"`.
        norm: Normalization of the pooled features: `"none"`, `"batch"` (batch normalization) or `"layer"` (layer
            normalization). Defaults to `"none"`.
        dropout: Float. Fraction of the features that training drops. Defaults to `0.0`.

    Example:

    ```python
    head = tfdml.heads.Linear(pooling="avg+max", norm="layer")
    head.make_layer()(np.random.normal(size=(2, 7, 7, 64))).shape  # (2, 64)
    ```
    """

    pooling: PoolingKind = "avg"
    norm: FeatureNorm = "none"
    dropout: Dropout = 0.0

    def make_layer(self, **kwargs):
        return PooledFeatures(self.pooling, self.norm, self.dropout, **kwargs)


__all__ = ["Head", "Linear"]

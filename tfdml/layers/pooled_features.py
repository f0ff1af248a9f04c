"""Pooling, normalization and dropout of a backbone's features."""

from typing import Annotated, Unpack

import keras
from keras import ops

from tfdml.layers.pooling import Pooling
from tfdml.registry.arguments import FeatureNorm, LayerArguments, PoolingKind, Tensor, number
from tfdml.registry.fields import Declared

Dropout = Annotated[float, number(at_least=0, below=1)]


@keras.saving.register_keras_serializable(package="tfdml")
class PooledFeatures(Declared, keras.layers.Layer):
    """Applies pooling over positions, then a norm, then dropout: features `[B, ..., c]` to `[B, c]`.

    Args:
        pooling: `avg`, `max`, `avg+max`, `gem` or `first`, see `Pooling`.
        norm: `none`, `batch` (batch normalization) or `layer` (layer normalization).
        dropout: fraction of features to drop in training.
    """

    def __init__(
        self,
        pooling: PoolingKind = "avg",
        norm: FeatureNorm = "none",
        dropout: Dropout = 0.0,
        **kwargs: Unpack[LayerArguments],
    ):
        super().__init__(**kwargs)
        self.pooling = Pooling(pooling, dtype=self.dtype_policy, name="pooling")
        self.norm = norm
        self.normalization = None
        if norm == "batch":
            self.normalization = keras.layers.BatchNormalization(momentum=0.9, dtype=self.dtype_policy, name="norm")
        elif norm == "layer":
            self.normalization = keras.layers.LayerNormalization(dtype=self.dtype_policy, name="norm")
        self.dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, input_shape):
        self.pooling.build(input_shape)
        if self.normalization is not None:
            self.normalization.build((None, input_shape[-1]))

    def call(self, features, training=False):
        pooled = self.pooling(features)
        if self.norm == "batch":
            pooled = self.normalization(pooled, training=training)
        elif self.norm == "layer":
            pooled = self.normalization(pooled)
        return self.dropout(pooled, training=training)

    def places(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Returns what each position of `[B, h, w, c]` contributes to the output, and what none does.

        Returns:
            `[B, h, w, c]` and the offset `[c]` of the norm: the sum of all over positions, and the offset, are the
            output in inference. The deviation that a layer norm divides by counts as given.
        """
        parts = self.pooling.places(features)
        norm = self.normalization
        if norm is None:
            return parts, ops.zeros(parts.shape[-1])
        if self.norm == "batch":
            scale = norm.gamma / ops.sqrt(norm.moving_variance + norm.epsilon)
            return parts * scale, norm.beta - norm.moving_mean * scale
        variance = ops.var(ops.sum(parts, axis=(1, 2)), axis=-1)[:, None, None, None]
        centered = parts - ops.mean(parts, axis=-1, keepdims=True)
        return centered * norm.gamma / ops.sqrt(variance + norm.epsilon), norm.beta

    def compute_output_shape(self, input_shape):
        return (input_shape[0], input_shape[-1])

    def get_config(self):
        own = {"pooling": self.pooling.kind, "norm": self.norm, "dropout": self.dropout.rate}
        return {**super().get_config(), **own}

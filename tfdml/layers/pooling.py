"""Pooling of feature maps, also with partial windows at the border, to the features of an embedding."""

from typing import Annotated, Unpack

import keras
import numpy as np
from keras import ops

from tfdml.functional.checks import at_least_float32, loss_dtype
from tfdml.layers.loss_layer import Layer
from tfdml.registry.arguments import Count, FeatureNorm, LayerArguments, PoolingKind, Positive, Tensor, number
from tfdml.registry.fields import Declared


class CeilPooling(Layer):
    """Pooling whose last window may extend over the border, as in Caffe, and in PyTorch with `ceil_mode`.

    The first window starts at the first row; remaining rows at the end get another window.

    Args:
        pool_size: side of a window, at least `strides`.
        strides: distance between windows.
    """

    pool_size: Count
    strides: Count

    def check_arguments(self):
        if self.strides > self.pool_size:
            raise ValueError(
                f"Expected 1 <= strides <= pool_size, received strides {self.strides}, pool_size {self.pool_size}."
            )

    def windows(self, size: int) -> int:
        """Returns the number of windows along an axis of this size."""
        return -((self.pool_size - size) // self.strides) + 1

    def compute_output_shape(self, input_shape):
        batch, *sizes, channels = input_shape
        return (batch, *(None if size is None else self.windows(size) for size in sizes), channels)


@keras.saving.register_keras_serializable(package="tfdml")
class CeilAveragePooling(CeilPooling):
    """Average pooling with partial windows at the border, each divided by its number of positions; see `CeilPooling`.

    All images must have the same size.

    Args:
        pool_size, strides: see `CeilPooling`.
    """

    def call(self, features):
        ends = [(self.windows(size) - 1) * self.strides + self.pool_size - size for size in features.shape[1:3]]
        if not any(ends):
            return ops.average_pool(features, self.pool_size, self.strides, padding="valid")
        padded = ops.pad(features, [(0, 0), (0, ends[0]), (0, ends[1]), (0, 0)])
        sums = ops.average_pool(padded, self.pool_size, self.strides, padding="valid") * self.pool_size**2
        # The number of positions of each window along an axis.
        rows, columns = (
            np.minimum(self.pool_size, size - self.strides * np.arange(self.windows(size)))
            for size in features.shape[1:3]
        )
        return sums / ops.cast(rows[:, None, None] * columns[:, None], sums.dtype)


@keras.saving.register_keras_serializable(package="tfdml")
class CeilMaxPooling(CeilPooling):
    """Max pooling with partial windows at the border, see `CeilPooling`.

    Features must be non-negative, because it pads with zeros.

    Args:
        pool_size, strides: see `CeilPooling`.
    """

    def call(self, features):
        height, width = features.shape[1:3]
        if self._ends_as_same(height) and self._ends_as_same(width):
            # The same windows, without a copy of the features.
            return ops.max_pool(features, self.pool_size, self.strides, padding="same")
        # Fewer rows than a stride never form another window.
        end = (0, self.strides - 1)
        padded = ops.pad(features, [(0, 0), end, end, (0, 0)])
        return ops.max_pool(padded, self.pool_size, self.strides, padding="valid")

    def _ends_as_same(self, size):
        """Whether Keras' "same" pads at most one row at the end and none at the beginning."""
        return size is not None and (-(-size // self.strides) - 1) * self.strides + self.pool_size - size <= 1


# Powers and roots need positive numbers.
SMALLEST = 1e-6
POOLS = {"avg": ops.mean, "max": ops.max}


@keras.saving.register_keras_serializable(package="tfdml")
class Pooling(Layer):
    """Pools features `[B, h, w, c]` or `[B, tokens, c]` over positions to `[B, c]`; `[B, c]` is unchanged.

    Args:
        kind: `avg`, `max`, the sum of both `avg+max`, or `gem`: the generalized mean `mean(x^p)^(1/p)` of positive
            values, with a learned p (Radenović et al., Fine-tuning CNN Image Retrieval, 2018). `first` uses the first
            token, which represents the whole image in transformers.
        power: initial p of `gem`. 1 is the average; larger values approach the maximum.
    """

    kind: PoolingKind = "avg"
    power: Positive = 3.0

    def build(self, input_shape):
        if len(input_shape) not in (2, 3, 4):
            raise ValueError(
                "Expected features of shape [B, h, w, c], [B, tokens, c] or [B, c] from the backbone, "
                f"received shape {tuple(input_shape)}."
            )
        if self.kind == "first" and len(input_shape) == 4:
            raise ValueError(
                "Pooling 'first' needs the tokens [B, tokens, c] of a transformer; the backbone returns shape "
                f"{tuple(input_shape)}. Choose another."
            )
        self.exponent = None
        if self.kind == "gem" and len(input_shape) > 2:
            start = keras.initializers.Constant(self.power)
            self.exponent = self.add_weight(
                name="power", shape=(), initializer=start, dtype=loss_dtype(self.variable_dtype), autocast=False
            )

    def call(self, features):
        positions = tuple(range(1, len(features.shape) - 1))
        if not positions:
            return features
        if self.kind == "first":
            return features[:, 0]
        if self.kind == "gem":
            return ops.cast(self._generalized_mean(features, positions), features.dtype)
        first, *others = (POOLS[kind](features, axis=positions) for kind in self.kind.split("+"))
        return sum(others, first)

    def places(self, features: Tensor) -> Tensor:
        """Returns what each position contributes to the pooled features: `[B, h, w, c]`, which add up to them.

        Multiplied by a number, features give as many times the pooled ones, so these are the sum of each feature times
        the derivative with respect to it (Euler). Of the average that is a feature divided by the number of positions;
        of the maximum the maximum, shared equally by the positions that have it; of the generalized mean a share in
        proportion to `x^p`.
        """
        if len(features.shape) != 4 or self.kind == "first":
            raise ValueError(
                "Expected a feature map [B, h, w, c] that is pooled over positions, to tell them apart; received shape "
                f"{tuple(features.shape)} and pooling {self.kind!r}."
            )
        features = at_least_float32(features)

        def share(kind):
            if kind == "avg":
                return features / (features.shape[1] * features.shape[2])
            if kind == "max":
                is_highest = ops.cast(features == ops.max(features, axis=(1, 2), keepdims=True), features.dtype)
                return features * is_highest / ops.sum(is_highest, axis=(1, 2), keepdims=True)
            positive = ops.maximum(features, SMALLEST)
            powers = ops.power(positive / ops.max(positive, axis=(1, 2), keepdims=True), self.exponent)
            return self(features)[:, None, None] * powers / ops.sum(powers, axis=(1, 2), keepdims=True)

        first, *others = map(share, self.kind.split("+"))
        return sum(others, first)

    def compute_output_shape(self, input_shape):
        return (input_shape[0], input_shape[-1])

    def _generalized_mean(self, features, positions):
        # Powers overflow in half precision.
        features = ops.maximum(at_least_float32(features), SMALLEST)
        exponent = ops.cast(self.exponent, features.dtype)
        # Relative to the largest, which keeps powers within range.
        highest = ops.max(features, axis=positions, keepdims=True)
        mean = ops.mean(ops.power(features / highest, exponent), axis=positions, keepdims=True)
        return ops.squeeze(highest * ops.power(mean, 1.0 / exponent), axis=positions)


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

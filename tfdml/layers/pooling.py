"""Pooling of feature maps, including pooling with partial windows at the border."""

from typing import Annotated, Unpack

import keras
import numpy as np
from keras import ops

from tfdml.functional.checks import at_least_float32, loss_dtype
from tfdml.layers.loss_layer import Layer
from tfdml.registry.arguments import Count, FeatureNorm, LayerArguments, PoolingKind, Positive, Tensor, number
from tfdml.registry.fields import Declared


class CeilPooling(Layer):
    """Base of poolings with a last window that may extend over the border, as in Caffe or PyTorch's `ceil_mode`.

    The first window starts at the first row. Rows that remain at the end get one more window.

    Args:
        pool_size: Integer. Side of a window, at least `strides`.
        strides: Integer. Distance between windows.
        activity_regularizer, trainable, dtype, autocast, name: see `keras.layers.Layer`.
    """

    pool_size: Count
    strides: Count

    def check_arguments(self):
        if self.strides > self.pool_size:
            raise ValueError(
                f"strides must be at most pool_size. Received: strides={self.strides}, pool_size={self.pool_size}."
            )

    def windows(self, size: int) -> int:
        """Returns the number of windows along an axis with `size` positions."""
        return -((self.pool_size - size) // self.strides) + 1

    def compute_output_shape(self, input_shape):
        batch, *sizes, channels = input_shape
        return (batch, *(None if size is None else self.windows(size) for size in sizes), channels)


@keras.saving.register_keras_serializable(package="tfdml")
class CeilAveragePooling(CeilPooling):
    """Averages windows of a feature map and, unlike Keras, keeps partial windows at the border.

    Use it to rebuild networks from Caffe, or from PyTorch with `ceil_mode=True`. Each window is divided by the number
    of its positions inside the map. The height and width of the features must be known.

    Args:
        pool_size: Integer. Side of a window, at least `strides`.
        strides: Integer. Distance between windows.
        activity_regularizer, trainable, dtype, autocast, name: see `keras.layers.Layer`.

    Returns:
        `[B, rows, columns, c]`, with `ceil((size - pool_size) / strides) + 1` windows along each axis.

    Raises:
        ValueError: If `strides` is larger than `pool_size`.

    Example:

    ```python
    features = np.arange(16, dtype="float32").reshape(1, 4, 4, 1)
    tfdml.layers.CeilAveragePooling(3, 2)(features)[0, :, :, 0]  # [[5, 6.5], [11, 12.5]]
    ```
    """

    def call(self, features):
        ends = [(self.windows(size) - 1) * self.strides + self.pool_size - size for size in features.shape[1:3]]
        if not any(ends):
            return ops.average_pool(features, self.pool_size, self.strides, padding="valid")
        padded = ops.pad(features, [(0, 0), (0, ends[0]), (0, ends[1]), (0, 0)])
        sums = ops.average_pool(padded, self.pool_size, self.strides, padding="valid") * self.pool_size**2
        # Number of positions inside the map of each window along an axis.
        rows, columns = (
            np.minimum(self.pool_size, size - self.strides * np.arange(self.windows(size)))
            for size in features.shape[1:3]
        )
        return sums / ops.cast(rows[:, None, None] * columns[:, None], sums.dtype)


@keras.saving.register_keras_serializable(package="tfdml")
class CeilMaxPooling(CeilPooling):
    """Computes the maximum of windows of a feature map and, unlike Keras, keeps partial windows at the border.

    Use it to rebuild networks from Caffe, or from PyTorch with `ceil_mode=True`. Features must be non-negative, because
    the layer pads with zeros.

    Args:
        pool_size: Integer. Side of a window, at least `strides`.
        strides: Integer. Distance between windows.
        activity_regularizer, trainable, dtype, autocast, name: see `keras.layers.Layer`.

    Returns:
        `[B, rows, columns, c]`, with `ceil((size - pool_size) / strides) + 1` windows along each axis.

    Raises:
        ValueError: If `strides` is larger than `pool_size`.

    Example:

    ```python
    features = np.arange(16, dtype="float32").reshape(1, 4, 4, 1)
    tfdml.layers.CeilMaxPooling(3, 2)(features)[0, :, :, 0]  # [[10, 11], [14, 15]]
    ```
    """

    def call(self, features):
        height, width = features.shape[1:3]
        if self._ends_as_same(height) and self._ends_as_same(width):
            # Keras' "same" padding has the same windows here and needs no copy of the features.
            return ops.max_pool(features, self.pool_size, self.strides, padding="same")
        # Fewer padded rows than a stride never form an additional window.
        end = (0, self.strides - 1)
        padded = ops.pad(features, [(0, 0), end, end, (0, 0)])
        return ops.max_pool(padded, self.pool_size, self.strides, padding="valid")

    def _ends_as_same(self, size):
        """Whether Keras' "same" padding adds at most one row, which is then at the end."""
        return size is not None and (-(-size // self.strides) - 1) * self.strides + self.pool_size - size <= 1


# Powers and roots need positive values, so smaller values are replaced by this one.
SMALLEST = 1e-6
POOLS = {"avg": ops.mean, "max": ops.max}


@keras.saving.register_keras_serializable(package="tfdml")
class Pooling(Layer):
    """Pools features over their positions: average, maximum, their sum, generalized mean (GeM) or first token.

    GeM, the generalized mean `mean(x^p)^(1/p)` with a learned exponent, is between the average and the maximum. It
    gives strong responses more weight and is common in image retrieval (Radenović et al., Fine-tuning CNN Image
    Retrieval, 2018).

    Args:
        kind: `"avg"`, `"max"`, `"avg+max"` (the sum of both), `"gem"`, or `"first"` for the first token, which
            represents the whole image in many transformers. Defaults to `"avg"`.
        power: Float. Initial exponent p of `"gem"`. With 1, GeM is the average of the positive values; larger values
            approach the maximum. Defaults to `3.0`.
        activity_regularizer, trainable, dtype, autocast, name: see `keras.layers.Layer`.

    Call arguments:
        features: `[B, h, w, c]`, `[B, tokens, c]`, or `[B, c]`, which the layer returns unchanged.

    Returns:
        `[B, c]`.

    Raises:
        ValueError: If the features have another shape, or `kind="first"` receives a feature map.

    Example:

    ```python
    features = np.array([[[[1.0], [2.0]], [[3.0], [6.0]]]], "float32")
    tfdml.layers.Pooling("gem")(features)  # [[3.979]]
    ```
    """

    kind: PoolingKind = "avg"
    power: Positive = 3.0

    def build(self, input_shape):
        if len(input_shape) not in (2, 3, 4):
            raise ValueError(
                "The backbone must return features of shape [B, h, w, c], [B, tokens, c] or [B, c]. "
                f"Received: shape={tuple(input_shape)}."
            )
        if self.kind == "first" and len(input_shape) == 4:
            raise ValueError(
                "Pooling 'first' needs the tokens [B, tokens, c] of a transformer. The backbone returns shape "
                f"{tuple(input_shape)}. Use another pooling, such as 'avg'."
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

        Pooling is homogeneous of degree 1, so by Euler's theorem the pooled features are the sum of each feature times
        the derivative with respect to it. For the average, this is the feature divided by the number of positions. For
        the maximum, it is the maximum, shared equally by the positions that have it. For the generalized mean, it is a
        share in proportion to `x^p`.
        """
        if len(features.shape) != 4 or self.kind == "first":
            raise ValueError(
                "The contributions of single positions need a feature map [B, h, w, c] that is pooled over positions. "
                f"Received: shape={tuple(features.shape)}, pooling={self.kind!r}."
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
        # Values relative to the largest one keep the powers within range.
        highest = ops.max(features, axis=positions, keepdims=True)
        mean = ops.mean(ops.power(features / highest, exponent), axis=positions, keepdims=True)
        return ops.squeeze(highest * ops.power(mean, 1.0 / exponent), axis=positions)


Dropout = Annotated[float, number(at_least=0, below=1)]


@keras.saving.register_keras_serializable(package="tfdml")
class PooledFeatures(Declared, keras.layers.Layer):
    """Pools features over positions, then applies a norm and dropout.

    Pass it as `features` to `EmbeddingHead` and other embedding layers, which apply a linear layer to the result.

    Args:
        pooling: `"avg"`, `"max"`, `"avg+max"`, `"gem"` or `"first"`; see `Pooling`. Defaults to `"avg"`.
        norm: `"none"`, `"batch"` (batch normalization) or `"layer"` (layer normalization). Defaults to `"none"`.
        dropout: Float from 0 to less than 1. Fraction of features to drop during training. Defaults to `0.0`.
        **kwargs: `name`, `dtype` and `trainable` of a Keras layer.

    Call arguments:
        features: `[B, h, w, c]`, `[B, tokens, c]` or `[B, c]`.
        training: Boolean. Whether batch norm and dropout run in training mode. Defaults to `False`.

    Returns:
        `[B, c]`.

    Example:

    ```python
    features = tfdml.layers.PooledFeatures("max", norm="layer")
    features(np.ones((2, 7, 7, 32), "float32")).shape  # (2, 32)
    ```
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
        """Returns what each position of `[B, h, w, c]` contributes to the output, and an offset.

        Returns:
            `[B, h, w, c]` and the offset `[c]` of the norm. The sum over positions plus the offset is the output in
            inference. The standard deviation that a layer norm divides by counts as a constant.
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

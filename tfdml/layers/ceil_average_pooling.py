"""Average pooling that leaves nothing out at the border."""

import keras
import numpy as np
from keras import ops

from tfdml.registry import register


@register("layer", "ceil_average_pooling")
class CeilAveragePooling(keras.layers.Layer):
    """Average pooling whose last window may reach over the border, as Caffe pools.

    The first window begins at the first row; where rows are left at the end, another window takes them, and is divided
    by as many positions as it has. Images need one size.

    Args:
        pool_size: side of a window, at least `strides`.
        strides: distance of neighbouring windows.
    """

    def __init__(self, pool_size, strides, **kwargs):
        super().__init__(**kwargs)
        if not 1 <= strides <= pool_size:
            raise ValueError(f"Expected 1 <= strides <= pool_size, received strides {strides}, pool_size {pool_size}.")
        self.pool_size = pool_size
        self.strides = strides

    def call(self, features):
        ends = [(self._windows(size) - 1) * self.strides + self.pool_size - size for size in features.shape[1:3]]
        if not any(ends):
            return ops.average_pool(features, self.pool_size, self.strides, padding="valid")
        padded = ops.pad(features, [(0, 0), (0, ends[0]), (0, ends[1]), (0, 0)])
        sums = ops.average_pool(padded, self.pool_size, self.strides, padding="valid") * self.pool_size**2
        rows, columns = (self._positions(size) for size in features.shape[1:3])
        return sums / ops.cast(rows[:, None, None] * columns[:, None], sums.dtype)

    def compute_output_shape(self, input_shape):
        batch, *sizes, channels = input_shape
        return (batch, *(self._windows(size) for size in sizes), channels)

    def get_config(self):
        return {**super().get_config(), "pool_size": self.pool_size, "strides": self.strides}

    def _windows(self, size):
        return -((self.pool_size - size) // self.strides) + 1

    def _positions(self, size):
        """How many positions of an axis each window has."""
        return np.minimum(self.pool_size, size - self.strides * np.arange(self._windows(size)))

"""Average pooling with partial windows at the border."""

import keras
import numpy as np
from keras import ops

from tfdml.layers.ceil_pooling import CeilPooling


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
        rows, columns = (self._positions(size) for size in features.shape[1:3])
        return sums / ops.cast(rows[:, None, None] * columns[:, None], sums.dtype)

    def _positions(self, size):
        """Returns the number of positions of each window along an axis."""
        return np.minimum(self.pool_size, size - self.strides * np.arange(self.windows(size)))

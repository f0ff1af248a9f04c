"""Max pooling with partial windows at the border."""

import keras
from keras import ops

from tfdml.layers.ceil_pooling import CeilPooling


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

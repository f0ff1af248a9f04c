"""Max pooling that leaves nothing out at the border."""

import keras
from keras import ops

from tfdml.registry import register


@register("layer", "ceil_max_pooling")
class CeilMaxPooling(keras.layers.Layer):
    """Max pooling whose last window may reach over the border, as Caffe pools, and PyTorch with `ceil_mode`.

    The first window begins at the first row; where rows are left at the end, another window takes them. Takes features
    that are not negative, because it pads with zeros.

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
        height, width = features.shape[1:3]
        if self._ends_as_same(height) and self._ends_as_same(width):
            # The same windows, without a copy of the features.
            return ops.max_pool(features, self.pool_size, self.strides, padding="same")
        # Fewer rows than a stride never make a window of their own.
        end = (0, self.strides - 1)
        padded = ops.pad(features, [(0, 0), end, end, (0, 0)])
        return ops.max_pool(padded, self.pool_size, self.strides, padding="valid")

    def _ends_as_same(self, size):
        """Whether Keras' "same" puts at most one row at the end and none at the beginning."""
        return size is not None and (-(-size // self.strides) - 1) * self.strides + self.pool_size - size <= 1

    def compute_output_shape(self, input_shape):
        batch, *sizes, channels = input_shape
        pooled = [None if size is None else -((self.pool_size - size) // self.strides) + 1 for size in sizes]
        return (batch, *pooled, channels)

    def get_config(self):
        return {**super().get_config(), "pool_size": self.pool_size, "strides": self.strides}

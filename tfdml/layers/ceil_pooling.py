"""Base of poolings that leave no pixels out at the border."""

from typing import Unpack

import keras

from tfdml.registry.annotations import LayerArguments


class CeilPooling(keras.layers.Layer):
    """Pooling whose last window may extend over the border, as in Caffe, and in PyTorch with `ceil_mode`.

    The first window starts at the first row; remaining rows at the end get another window.

    Args:
        pool_size: side of a window, at least `strides`.
        strides: distance between windows.
    """

    def __init__(self, pool_size: int, strides: int, **kwargs: Unpack[LayerArguments]):
        super().__init__(**kwargs)
        if strides > pool_size:
            raise ValueError(f"Expected 1 <= strides <= pool_size, received strides {strides}, pool_size {pool_size}.")
        self.pool_size = pool_size
        self.strides = strides

    def windows(self, size: int) -> int:
        """Returns the number of windows along an axis of this size."""
        return -((self.pool_size - size) // self.strides) + 1

    def compute_output_shape(self, input_shape):
        batch, *sizes, channels = input_shape
        return (batch, *(None if size is None else self.windows(size) for size in sizes), channels)

    def get_config(self):
        return {**super().get_config(), "pool_size": self.pool_size, "strides": self.strides}

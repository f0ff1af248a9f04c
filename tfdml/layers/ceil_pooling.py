"""Base of poolings that leave no pixels out at the border."""

from tfdml.layers.loss_layer import Layer
from tfdml.registry.arguments import Count


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

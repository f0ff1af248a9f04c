"""Inner products in float32, on a GPU if there is one."""

import contextlib

import numpy as np
import tensorflow as tf


class Products:
    """Computes inner products of queries and vectors.

    Args:
        vectors: `[N, d]` float32 array.
    """

    def __init__(self, vectors):
        self.vectors = vectors
        self.device = first_gpu()
        self._on_device = {}

    def __call__(self, queries, rows, out):
        """Computes the products `[B, R]` of queries `[B, d]` and a slice of the vectors, in `out`."""
        if self.device is None:
            np.matmul(queries, self.vectors[rows].T, out=out)
            return
        with tf.device(self.device), _all_of_float32():
            # Sent once, not with every block of queries.
            if rows.start not in self._on_device:
                self._on_device[rows.start] = tf.constant(self.vectors[rows])
            out[:] = tf.matmul(queries, self._on_device[rows.start], transpose_b=True).numpy()


def first_gpu():
    """Returns the name of the first GPU, or None without one."""
    gpus = tf.config.list_logical_devices("GPU")
    return gpus[0].name if gpus else None


@contextlib.contextmanager
def _all_of_float32():
    """Without TensorFloat-32, which rounds to 10 bits: too many similarities would be near thresholds."""
    enabled = tf.config.experimental.tensor_float_32_execution_enabled()
    tf.config.experimental.enable_tensor_float_32_execution(False)
    try:
        yield
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(enabled)

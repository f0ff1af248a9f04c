"""Inner products in float32, on all GPUs if there are any."""

import contextlib
import sys

import numpy as np

# From so many products of numbers on, TensorFlow may save more seconds than its import takes.
MANY = 2**40


class Products:
    """Computes inner products of queries and vectors.

    Args:
        vectors: `[N, d]` float32 array.
    """

    def __init__(self, vectors):
        self.vectors = vectors
        self.devices = gpus() if may_use_tensorflow(vectors) else []
        self._on_device = {}

    def __call__(self, queries, rows, out):
        """Computes the products `[B, R]` of queries `[B, d]` and a slice of the vectors, in `out`."""
        if not self.devices:
            np.matmul(queries, self.vectors[rows].T, out=out)
            return
        shares = np.array_split(queries, len(self.devices))
        with _all_of_float32():
            # All devices have begun before the first is waited for.
            begun = [self._begin(device, share, rows) for device, share in zip(self.devices, shares, strict=True)]
            for part, product in zip(np.array_split(out, len(self.devices)), begun, strict=True):
                part[:] = product.numpy()

    def _begin(self, device, queries, rows):
        import tensorflow as tf

        with tf.device(device):
            # Sent once, not with every block of queries.
            if (device, rows.start) not in self._on_device:
                self._on_device[device, rows.start] = tf.constant(self.vectors[rows])
            return tf.matmul(queries, self._on_device[device, rows.start], transpose_b=True)


def may_use_tensorflow(vectors):
    """Returns whether TensorFlow is imported, or worth it to compare all of vectors `[N, d]` with each other."""
    return "tensorflow" in sys.modules or vectors.size * len(vectors) >= MANY


def gpus():
    """Returns the names of the GPUs."""
    import tensorflow as tf

    return [gpu.name for gpu in tf.config.list_logical_devices("GPU")]


@contextlib.contextmanager
def _all_of_float32():
    """Without TensorFloat-32, which rounds to 10 bits: too many similarities would be near thresholds."""
    import tensorflow as tf

    enabled = tf.config.experimental.tensor_float_32_execution_enabled()
    tf.config.experimental.enable_tensor_float_32_execution(False)
    try:
        yield
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(enabled)

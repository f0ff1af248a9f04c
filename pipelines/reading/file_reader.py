"""The contents of a split's image files."""

import numpy as np
import tensorflow as tf

from pipelines.datasets.packed_images import PackedImages


class PackedReader:
    """A function from a row to its record in a shard; `many`, from several rows to theirs, is much faster.

    Args:
        images: `PackedImages`.
    """

    def __init__(self, images):
        self._images = images

    def __call__(self, row):
        return tf.reshape(self.many(tf.reshape(row, [1])), [])

    def many(self, rows):
        """Returns the contents `[N]` of rows `[N]`."""
        # TensorFlow has no operation that reads a part of a file. Here only the calls are Python's: rows are many.
        contents = tf.numpy_function(self._read, [rows], tf.string, stateful=False)
        return tf.ensure_shape(contents, [None])

    def _read(self, rows):
        return self._images.read(np.asarray(rows))


def file_reader(split):
    """Returns a function from a row to the contents of its image file."""
    if isinstance(split.images, PackedImages):
        return PackedReader(split.images)
    images, encoded = tf.constant(split.images), split.encoded

    def read(row):
        return images[row] if encoded else tf.io.read_file(images[row])

    return read

"""The contents of a split's image files, and its vectors."""

import numpy as np
import tensorflow as tf

from pipelines.datasets.header_checks import as_decodable
from pipelines.datasets.packed_images import PackedImages
from pipelines.images.decoding import converted, read_image
from pipelines.reading.free_memory import free_memory

FLOAT = 4


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
        found = self._images.read(np.asarray(rows))
        found[:] = list(map(as_decodable, found))
        return found


def vector_reader(vectors):
    """Returns a function from rows `[n]` to the vectors `[n, D]` of a `StoredVectors`.

    They are copied into memory where they take a quarter of what is free, or less.
    """
    if len(vectors) * vectors.dims * FLOAT <= free_memory() / 4:
        # A GPU's memory is for the model.
        with tf.device("CPU"):
            held = tf.constant(vectors.read())
        return lambda rows: tf.gather(held, rows)

    def read(rows):
        found = tf.numpy_function(vectors.read, [rows], tf.float32, stateful=False)
        return tf.ensure_shape(found, [None, vectors.dims])

    return read


def file_reader(split):
    """Returns a function from a row to the contents of its image file."""
    if isinstance(split.images, PackedImages):
        return PackedReader(split.images)
    images, encoded = tf.constant(split.images), split.encoded

    def read(row):
        return converted(images[row]) if encoded else read_image(images[row])

    return read

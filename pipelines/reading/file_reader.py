"""The contents of a split's image files."""

import tensorflow as tf


def file_reader(split):
    """Returns a function from a row to the contents of its image file."""
    images, encoded = tf.constant(split.images), split.encoded

    def read(row):
        return images[row] if encoded else tf.io.read_file(images[row])

    return read

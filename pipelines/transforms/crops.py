"""The steps that transforms are made of.

A step is a function `(image, seed) -> image` of a float32 image `[H, W, 3]`, or a `Cut`. Random steps are stateless:
the same seed gives the same image.
"""

import numpy as np
import tensorflow as tf

from pipelines.images.cut import Cut
from tfdml.arguments import integer, interval, number
from tfdml.registry import register

# An image that is longer than so many times its width is seen in its middle only: the whole of it, at a width that a
# network takes, would fill the memory.
LONGEST_SHAPE = 32


@register(
    "transform",
    "random_resized_crop",
    size=integer(1),
    area=interval(number(above=0, at_most=1)),
    aspect=interval(number(above=0)),
)
def random_resized_crop(size, area=(0.08, 1.0), aspect=(3 / 4, 4 / 3)):
    """Crops a random share of the area at a random aspect ratio and resizes it to `size` × `size`."""

    def window(height, width, seed):
        # The whole image where nothing fits, as in very narrow ones.
        return first_fitting(height, width, seed, area=area, aspect=aspect, otherwise=(height, width))

    return Cut(window, target=lambda height, width: (size, size), random=True)


@register("transform", "flip")
def flip():
    """Mirrors left and right with probability one half."""

    def step(image, seed):
        mirrored = tf.random.stateless_uniform([], seed) < 0.5
        flipped = tf.cond(mirrored, lambda: tf.reverse(image, axis=[1]), lambda: image)
        return tf.ensure_shape(flipped, image.shape)

    return step


@register("transform", "random_crop", size=integer(1))
def random_crop(size):
    """Crops a random square of `size`; smaller images are padded with black first."""

    def window(height, width, seed):
        rows, columns = tf.minimum(height, size), tf.minimum(width, size)
        return _placed(height, width, rows, columns, tf.random.stateless_uniform([2], seed))

    return Cut(window, finish=lambda image: _padded(image, size), random=True)


@register("transform", "center_crop", size=integer(1))
def center_crop(size):
    """Crops the central square of `size`; smaller images are padded with black."""

    def window(height, width, seed):
        del seed
        return _centred(height, width, tf.minimum(height, size), tf.minimum(width, size))

    return Cut(window, finish=lambda image: _padded(image, size))


@register("transform", "resize_short", size=integer(1))
def resize_short(size):
    """Resizes the shorter side to `size`, aspect kept."""

    def window(height, width, seed):
        del seed
        longest = LONGEST_SHAPE * tf.minimum(height, width)
        return _centred(height, width, tf.minimum(height, longest), tf.minimum(width, longest))

    def target(height, width):
        scale = size / tf.minimum(height, width)
        return tf.maximum(tf.round(height * scale), size), tf.maximum(tf.round(width * scale), size)

    return Cut(window, target=target)


@register("transform", "resize_pad", size=integer(1), fill=number(at_least=0, at_most=255))
def resize_pad(size, fill=0):
    """Resizes the longer side to `size`, aspect kept, and pads the shorter one with `fill` (0 to 255) to a square."""

    def target(height, width):
        scale = size / tf.maximum(height, width)
        return tf.maximum(tf.round(height * scale), 1), tf.maximum(tf.round(width * scale), 1)

    return Cut(target=target, finish=lambda image: _padded(image - fill, size) + fill)


@register("transform", "warp", size=integer(1))
def warp(size):
    """Resizes to `size` × `size`, whatever the aspect."""
    return Cut(target=lambda height, width: (size, size))


def first_fitting(height, width, seed, *, area, aspect, otherwise):
    """The top, left, height and width of a random window: the first of ten candidates that fits into the image.

    Args:
        height, width: of the image, float32 scalars.
        seed: `[2]` int64.
        area: lowest and highest share of the image.
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
    return _placed(height, width, rows, columns, uniform[2:, 0])


def _placed(height, width, rows, columns, uniform):
    """A window of `rows` × `columns` at the place that two uniform numbers name."""
    top, left = tf.floor(uniform[0] * (height - rows + 1)), tf.floor(uniform[1] * (width - columns + 1))
    return top, left, rows, columns


def _centred(height, width, rows, columns):
    return tf.floor((height - rows) / 2), tf.floor((width - columns) / 2), rows, columns


def _padded(image, size):
    """The image, no larger than `size` × `size`, in the middle of black."""
    missing = size - tf.shape(image)[:2]
    before = missing // 2
    margins = tf.stack([before, missing - before], axis=1)
    return tf.ensure_shape(tf.pad(image, tf.concat([margins, [[0, 0]]], 0)), [size, size, 3])

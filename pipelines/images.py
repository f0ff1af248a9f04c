"""Encoded images to what a network takes: decode, transform, normalise.

Training, evaluation and serving all prepare images here, so that they agree in every pixel. A transform is a chain
of the steps below, written as `random_resized_crop(area=(0.5, 1.0))|flip`. Random steps are stateless: the same seed
gives the same image.
"""

import re

import numpy as np
import tensorflow as tf

from tfdml.registry import create_chain, register


def preparation(transform, *, image_size, mean, std):
    """Makes the function `(contents, seed) -> image` of a transform.

    Args:
        transform: chain of transform specs; their `size` is `image_size` where they do not set it.
        image_size: side of the square that the chain ends with, pixels.
        mean, std: per-channel numbers; the result is `(pixels - mean) / std` with pixels from 0 to 255, RGB.

    Returns:
        A function of an encoded image (scalar string) and a seed (`[2]` int64) that gives float32
        `[image_size, image_size, 3]`.
    """
    steps = create_chain("transform", transform, size=image_size)
    mean, std = np.asarray(mean, np.float32), np.asarray(std, np.float32)

    def prepare(contents, seed):
        image = tf.cast(decode(contents), tf.float32)
        for number, step in enumerate(steps):
            image = step(image, tf.random.experimental.stateless_fold_in(seed, number))
        if image.shape != (image_size, image_size, 3):
            raise ValueError(
                f"The transform {transform!r} ends with images of shape {tuple(image.shape)}; expected "
                f"({image_size}, {image_size}, 3). End it with a crop, or with warp."
            )
        return (image - mean) / std

    return prepare


def decode(contents):
    """Decodes JPEG, PNG, GIF (first frame), BMP or WebP to uint8 `[H, W, 3]`."""

    # These two arguments make a decoded crop equal to the crop of a decoded image, and agree with libjpeg's slow DCT.
    def jpeg():
        return tf.io.decode_jpeg(contents, channels=3, dct_method="INTEGER_ACCURATE", fancy_upscaling=False)

    def other():
        return tf.io.decode_image(contents, channels=3, expand_animations=False)

    image = tf.cond(tf.io.is_jpeg(contents), jpeg, other)
    return tf.ensure_shape(image, [None, None, 3])


def thumbnail(split, row, side):
    """A small picture of a row, uint8 `[side, side, 3]`, aspect kept."""
    resized = tf.image.resize_with_pad(_image_of(split, row), side, side, antialias=True)
    return tf.cast(tf.clip_by_value(tf.round(resized), 0, 255), tf.uint8).numpy()


def find_unreadable(split):
    """The first row of a split that cannot be read or decoded and why, `(row, reason)`, or None."""
    for row in range(len(split)):
        try:
            _image_of(split, row)
        except tf.errors.OpError as error:
            # TensorFlow puts the name of its function in front and that of its operation behind.
            return row, re.sub(r"\{\{.*?\}\}|\[Op:.*", "", error.message.split("\n")[0]).strip()
    return None


def _image_of(split, row):
    return decode(tf.constant(split.images[row]) if split.encoded else tf.io.read_file(split.images[row]))


@register("transform", "random_resized_crop")
def random_resized_crop(size, area=(0.08, 1.0), aspect=(3 / 4, 4 / 3)):
    """Crops a random share of the area at a random aspect ratio and resizes it to `size` × `size`."""
    if not 0 < area[0] <= area[1] <= 1 or not 0 < aspect[0] <= aspect[1]:
        raise ValueError(
            f"random_resized_crop needs 0 < area <= 1 and aspect > 0, both (low, high); received {area}, {aspect}."
        )

    def step(image, seed):
        height, width = _side_lengths(image)
        # The first of ten candidates that fits inside; the whole image if none does, as for very narrow ones.
        uniform = tf.random.stateless_uniform([4, 10], seed)
        pixels = height * width * (area[0] + uniform[0] * (area[1] - area[0]))
        ratio = tf.exp(np.log(aspect[0]) + uniform[1] * np.log(aspect[1] / aspect[0]))
        heights, widths = tf.round(tf.sqrt(pixels / ratio)), tf.round(tf.sqrt(pixels * ratio))
        heights = tf.concat([heights, [height]], 0)
        widths = tf.concat([widths, [width]], 0)
        fits = (heights >= 1) & (heights <= height) & (widths >= 1) & (widths <= width)
        first = tf.argmax(tf.cast(fits, tf.int32))
        crop_height, crop_width = heights[first], widths[first]
        top = tf.floor(uniform[2, 0] * (height - crop_height + 1))
        left = tf.floor(uniform[3, 0] * (width - crop_width + 1))
        return _resize(_crop(image, top, left, crop_height, crop_width), size, size)

    return step


@register("transform", "flip")
def flip():
    """Mirrors left and right with probability one half."""

    def step(image, seed):
        mirrored = tf.random.stateless_uniform([], seed) < 0.5
        flipped = tf.cond(mirrored, lambda: tf.reverse(image, axis=[1]), lambda: image)
        return tf.ensure_shape(flipped, image.shape)

    return step


@register("transform", "random_crop")
def random_crop(size):
    """Crops a random square of `size`; smaller images are padded with black first."""

    def step(image, seed):
        image = _pad_to(image, size)
        height, width = _side_lengths(image)
        uniform = tf.random.stateless_uniform([2], seed)
        top, left = tf.floor(uniform[0] * (height - size + 1)), tf.floor(uniform[1] * (width - size + 1))
        return tf.ensure_shape(_crop(image, top, left, size, size), [size, size, 3])

    return step


@register("transform", "center_crop")
def center_crop(size):
    """Crops the central square of `size`; smaller images are padded with black."""

    def step(image, seed):
        del seed
        return tf.image.resize_with_crop_or_pad(image, size, size)

    return step


@register("transform", "resize_short")
def resize_short(size):
    """Resizes the shorter side to `size`, aspect kept."""

    def step(image, seed):
        del seed
        height, width = _side_lengths(image)
        scale = size / tf.minimum(height, width)
        return _resize(image, tf.maximum(tf.round(height * scale), size), tf.maximum(tf.round(width * scale), size))

    return step


@register("transform", "resize_pad")
def resize_pad(size, fill=0):
    """Resizes the longer side to `size`, aspect kept, and pads the shorter one with `fill` (0 to 255) to a square."""

    def step(image, seed):
        del seed
        height, width = _side_lengths(image)
        scale = size / tf.maximum(height, width)
        resized = _resize(image, tf.maximum(tf.round(height * scale), 1), tf.maximum(tf.round(width * scale), 1))
        return tf.image.resize_with_crop_or_pad(resized - fill, size, size) + fill

    return step


@register("transform", "warp")
def warp(size):
    """Resizes to `size` × `size`, whatever the aspect."""

    def step(image, seed):
        del seed
        return _resize(image, size, size)

    return step


def _side_lengths(image):
    height, width = tf.unstack(tf.cast(tf.shape(image)[:2], tf.float32))
    return height, width


def _crop(image, top, left, height, width):
    top, left, height, width = (tf.cast(value, tf.int32) for value in (top, left, height, width))
    return image[top : top + height, left : left + width]


def _resize(image, height, width):
    resized = tf.image.resize(image, tf.cast(tf.stack([height, width]), tf.int32), antialias=True)
    if isinstance(height, int):
        resized = tf.ensure_shape(resized, [height, width, 3])
    return resized


def _pad_to(image, size):
    shape = tf.shape(image)
    return tf.image.resize_with_crop_or_pad(image, tf.maximum(shape[0], size), tf.maximum(shape[1], size))

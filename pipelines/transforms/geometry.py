"""Transforms that crop, resize, flip, rotate or erase."""

from typing import Annotated, Literal

import numpy as np

from pipelines.images.resizing import Cut, slice_window
from pipelines.operations import tf
from pipelines.transforms.color import BRIGHTNESS_WEIGHTS
from pipelines.transforms.layer import centered, first_fitting, padded, placed, with_probability
from tfdml.registry import register
from tfdml.registry.arguments import Brightness, ImageSize, ImageStep, Share, integer, interval, number, sides_of


def rotation(degrees):
    """Returns the matrix `[2, 2]` that rotates counterclockwise by this angle, for `transformed`."""
    radians = tf.cast(degrees, tf.float64) * (np.pi / 180)
    # Rounding makes a rotation by 90 degrees exact.
    cosine, sine = (tf.round(number * 2**40) / 2**40 for number in (tf.cos(radians), tf.sin(radians)))
    return tf.cast(tf.stack([[cosine, -sine], [sine, cosine]]), tf.float32)


def transformed(image, matrix, shift=(0.0, 0.0), *, fill_mode="constant", fill=0.0):
    """Applies an affine transform with linear interpolation: the pixel at p is the input's at `matrix @ p + shift`.

    Args:
        image: `[H, W, 3]`.
        matrix: `[2, 2]`, for positions `(x, y)` in pixels from the center.
        shift: `(x, y)` in pixels.
        fill_mode, fill: How pixels outside of the image are filled, see `rotate`.
    """
    center = (sides_of_image(image) - 1) / 2
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


def sides_of_image(image):
    """Returns the width and height of an image, float32 `[2]`."""
    height, width = tf.unstack(tf.shape(image)[:2])
    return tf.cast(tf.stack([width, height]), tf.float32)


@register("transform", "center_crop")
def center_crop(size: ImageSize) -> Cut:
    """Crops the central part of the image after padding smaller images with black.

    Args:
        size: Size of the result: the side of a square, or `(height, width)`.
    """
    sides = sides_of(size)

    def window(height, width, seed):
        del seed
        return centered(height, width, tf.minimum(height, sides.height), tf.minimum(width, sides.width))

    return Cut(window, finish=lambda image: padded(image, sides))


@register("transform", "flip")
def flip() -> ImageStep:
    """Flips the image horizontally with a probability of 0.5."""

    def step(image, seed):
        mirrored = tf.random.stateless_uniform([], seed) < 0.5
        flipped = tf.cond(mirrored, lambda: tf.reverse(image, axis=[1]), lambda: image)
        return tf.ensure_shape(flipped, image.shape)

    return step


# The limit exists because a spec can come from a file that somebody sent.
MOST_PADDING = 256


@register("transform", "random_crop")
def random_crop(size: ImageSize, padding: Annotated[int, integer(0, at_most=MOST_PADDING)] = 0) -> Cut | ImageStep:
    """Crops a random part of the image after padding smaller images with black.

    For example, re-identification often uses `--image_size=256x128` with
    `--train_transform='warp|random_crop(padding=10)|flip'`.

    Args:
        size: Size of the result: the side of a square, or `(height, width)`.
        padding: Integer. Number of black pixels to add on each side before cropping. Defaults to `0`.
    """
    sides = sides_of(size)

    def window(height, width, seed):
        rows, columns = tf.minimum(height, sides.height), tf.minimum(width, sides.width)
        return placed(height, width, rows, columns, tf.random.stateless_uniform([2], seed))

    crop = Cut(window, finish=lambda image: padded(image, sides), random=True)
    if not padding:
        return crop
    margins = [[padding, padding], [padding, padding], [0, 0]]
    return lambda image, seed: crop(tf.pad(image, margins), seed)


# Range of the factor by which a crop is narrower or wider than the result.
STRETCHES = (3 / 4, 4 / 3)


@register("transform", "random_resized_crop")
def random_resized_crop(
    size: ImageSize,
    area: Annotated[tuple[float, float], interval(number(above=0, at_most=1))] = (0.08, 1.0),
    aspect: Annotated[tuple[float, float], interval(number(above=0))] | None = None,
) -> Cut:
    """Crops a part of the image with random area and aspect ratio and resizes it.

    Args:
        size: Size of the result: the side of a square, or `(height, width)`.
        area: Lowest and highest area of the crop, as a fraction of the image. Defaults to `(0.08, 1.0)`.
        aspect: Lowest and highest aspect ratio of the crop, width divided by height, or `None`. If `None`, it is 3/4 to
            4/3 of the result's aspect ratio. Defaults to `None`.
    """
    sides = sides_of(size)
    if aspect is None:
        # For a square, this is exactly `STRETCHES`.
        aspect = tuple(stretch * (sides.width / sides.height) for stretch in STRETCHES)

    def window(height, width, seed):
        # If no window fits, for example in a very narrow image, the whole image is used.
        return first_fitting(height, width, seed, area=area, aspect=aspect, otherwise=(height, width))

    return Cut(window, target=lambda height, width: sides, random=True)


@register("transform", "resize_pad")
def resize_pad(size: ImageSize, fill: Brightness = 0) -> Cut:
    """Resizes the whole image to fit into the size, keeps the aspect ratio and pads the rest.

    Args:
        size: Size of the result: the side of a square, or `(height, width)`.
        fill: Brightness of the padding, from 0 to 255. Defaults to `0`.
    """
    sides = sides_of(size)

    def target(height, width):
        scale = tf.minimum(sides.height / height, sides.width / width)
        return tf.maximum(tf.round(height * scale), 1), tf.maximum(tf.round(width * scale), 1)

    return Cut(target=target, finish=lambda image: padded(image - fill, sides) + fill)


# If an image is longer than this many times its width, only the middle is used, because the whole image, resized to the
# width of a network's input, would fill the memory.
LONGEST_SHAPE = 32


@register("transform", "resize_short")
def resize_short(size: ImageSize) -> Cut:
    """Resizes the image to just cover the size and keeps the aspect ratio, so that a crop can follow.

    Args:
        size: Length of the shorter side of the result, or `(height, width)` that the result covers.
    """
    sides = sides_of(size)

    def window(height, width, seed):
        del seed
        longest = LONGEST_SHAPE * tf.minimum(height, width)
        return centered(height, width, tf.minimum(height, longest), tf.minimum(width, longest))

    def target(height, width):
        scale = tf.maximum(sides.height / height, sides.width / width)
        return tf.maximum(tf.round(height * scale), sides.height), tf.maximum(tf.round(width * scale), sides.width)

    return Cut(window, target=target)


@register("transform", "rotate")
def rotate(
    degrees: Annotated[tuple[float, float], interval(number())] = (-15.0, 15.0),
    fill_mode: Literal["constant", "nearest", "reflect", "wrap"] = "constant",
    fill: Brightness = 0.0,
    probability: Share = 1.0,
) -> ImageStep:
    """Rotates the image around its center by a random angle and keeps its size, so that corners are cut off.

    Args:
        degrees: Lowest and highest angle. Positive angles are counterclockwise. Defaults to `(-15.0, 15.0)`.
        fill_mode: How empty corners are filled: `"constant"` with `fill`, `"reflect"` with the mirrored image, `"wrap"`
            with the repeated image, or `"nearest"` with the nearest pixel. Defaults to `"constant"`.
        fill: Brightness of empty corners, from 0 to 255. Defaults to `0.0`.
        probability: Float from 0 to 1. Probability that an image is rotated. Defaults to `1.0`.
    """

    def step(image, seed):
        drawn = degrees[0] + tf.random.stateless_uniform([], seed) * (degrees[1] - degrees[0])
        return transformed(image, rotation(drawn), fill_mode=fill_mode, fill=fill)

    return with_probability(probability, step)


@register("transform", "trim_border")
def trim_border(
    brightness: Annotated[float, number(above=0, at_most=255)] = 250.0, margin: Annotated[int, integer(0)] = 15
) -> ImageStep:
    """Removes a bright border: crops the image to its darker pixels, with a margin.

    An image without dark pixels is unchanged. For example, the code of Lifted Structure uses
    `--train_transform='trim_border|resize_pad(size=256, fill=255)|random_crop|flip'` for Stanford Online Products.

    Args:
        brightness: Float above 0 and up to 255. Pixels with at least this brightness are border. Defaults to `250.0`.
        margin: Integer. Number of border pixels to keep on each side. Defaults to `15`.
    """

    def step(image, seed):
        del seed
        dark = tf.tensordot(image, tf.constant(BRIGHTNESS_WEIGHTS), 1) < brightness
        (top, height), (left, width) = (_extent(tf.reduce_any(dark, axis), margin) for axis in (1, 0))
        return slice_window(image, top, left, height, width)

    return step


def _extent(marked, margin):
    """Returns the start and length of the marked part `[n]` with a margin, or of everything if nothing is marked."""
    places = tf.cast(tf.where(marked)[:, 0], tf.int32)
    count = tf.size(marked)
    nothing = tf.size(places) == 0
    # Without positions, the minimum is the largest integer and the maximum is the smallest one.
    first = tf.where(nothing, 0, tf.maximum(tf.reduce_min(places), margin) - margin)
    last = tf.where(nothing, count, tf.minimum(tf.reduce_max(places), count - 1 - margin) + margin + 1)
    return first, last - first


@register("transform", "warp")
def warp(size: ImageSize) -> Cut:
    """Resizes the image to exactly the size, without keeping the aspect ratio.

    Args:
        size: Size of the result: the side of a square, or `(height, width)`.
    """
    sides = sides_of(size)
    return Cut(target=lambda height, width: sides)


@register("transform", "random_erasing")
def random_erasing(
    probability: Share = 0.5,
    area: Annotated[tuple[float, float], interval(number(above=0, at_most=1))] = (0.02, 0.33),
    aspect: Annotated[tuple[float, float], interval(number(above=0))] = (0.3, 3.3),
    fill: Brightness = 114.0,
    noise: bool = False,
) -> ImageStep:
    """Erases a rectangle with random area, aspect ratio and position.

    Args:
        probability: Float from 0 to 1. Probability that an image is changed. Defaults to `0.5`.
        area: Lowest and highest area of the rectangle, as a fraction of the image. Defaults to `(0.02, 0.33)`.
        aspect: Lowest and highest aspect ratio of the rectangle, width divided by height. Defaults to `(0.3, 3.3)`.
        fill: Brightness of the rectangle, from 0 to 255. Defaults to `114.0`, which is about the mean of ImageNet.
        noise: Boolean. Whether to fill the rectangle with random pixels instead of `fill`. Defaults to `False`.
    """

    def step(image, seed):
        height, width = tf.unstack(tf.cast(tf.shape(image)[:2], tf.float32))
        top, left, rows, columns = first_fitting(height, width, seed, area=area, aspect=aspect, otherwise=(0.0, 0.0))
        # All channels are in one axis, because TensorFlow is slow at broadcasting three numbers.
        flat = tf.reshape(image, tf.stack([tf.shape(image)[0], -1]))
        erased = tf.matmul(_within(height, top, rows)[:, None], tf.repeat(_within(width, left, columns), 3)[None])
        pixels = tf.random.experimental.stateless_fold_in(seed, 1)
        paint = 255 * tf.random.stateless_uniform(tf.shape(flat), pixels) if noise else fill
        return tf.reshape(tf.where(erased > 0, paint, flat), tf.shape(image))

    return with_probability(probability, step)


def _within(length, first, count):
    """Returns `length` numbers: 1 at `count` positions starting at `first`, and 0 elsewhere."""
    places = tf.range(length)
    return tf.cast((places >= first) & (places < first + count), tf.float32)

"""Transforms that crop, resize, flip, rotate, or erase."""

from typing import Annotated, Literal

import numpy as np
import tensorflow as tf

from pipelines.images.resizing import Cut, slice_window
from pipelines.transforms.color import BRIGHTNESS_WEIGHTS
from pipelines.transforms.layer import centered, first_fitting, padded, placed, with_probability
from tfdml.registry import register
from tfdml.registry.arguments import Brightness, ImageSize, ImageStep, Share, integer, interval, number, sides_of


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
    """Returns width and height, float32 `[2]`."""
    height, width = tf.unstack(tf.shape(image)[:2])
    return tf.cast(tf.stack([width, height]), tf.float32)


@register("transform", "center_crop")
def center_crop(size: ImageSize) -> Cut:
    """Crops the central part of `size`; smaller images are padded with black."""
    sides = sides_of(size)

    def window(height, width, seed):
        del seed
        return centered(height, width, tf.minimum(height, sides.height), tf.minimum(width, sides.width))

    return Cut(window, finish=lambda image: padded(image, sides))


@register("transform", "flip")
def flip() -> ImageStep:
    """Mirrors left and right with probability 0.5."""

    def step(image, seed):
        mirrored = tf.random.stateless_uniform([], seed) < 0.5
        flipped = tf.cond(mirrored, lambda: tf.reverse(image, axis=[1]), lambda: image)
        return tf.ensure_shape(flipped, image.shape)

    return step


# A spec may be in a file of others.
MOST_PADDING = 256


@register("transform", "random_crop")
def random_crop(size: ImageSize, padding: Annotated[int, integer(0, at_most=MOST_PADDING)] = 0) -> Cut | ImageStep:
    """Crops a random part of `size`; smaller images are padded with black first.

    Args:
        size: of the result.
        padding: pixels of black that are added on each side before.

    Example: `--image_size=256x128 --train_transform='warp|random_crop(padding=10)|flip'`, as in re-identification.
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


# By how much a crop is narrower or wider than the result.
STRETCHES = (3 / 4, 4 / 3)


@register("transform", "random_resized_crop")
def random_resized_crop(
    size: ImageSize,
    area: Annotated[tuple[float, float], interval(number(above=0, at_most=1))] = (0.08, 1.0),
    aspect: Annotated[tuple[float, float], interval(number(above=0))] | None = None,
) -> Cut:
    """Crops a random fraction of the area at a random aspect ratio, and resizes it to `size`.

    Args:
        size: of the result.
        area: lowest and highest fraction of the image.
        aspect: lowest and highest width by height of the crop. Default: 3/4 to 4/3 of that of the result.
    """
    sides = sides_of(size)
    if aspect is None:
        # Of a square exactly `STRETCHES`.
        aspect = tuple(stretch * (sides.width / sides.height) for stretch in STRETCHES)

    def window(height, width, seed):
        # The whole image where no window fits, as in very narrow ones.
        return first_fitting(height, width, seed, area=area, aspect=aspect, otherwise=(height, width))

    return Cut(window, target=lambda height, width: sides, random=True)


@register("transform", "resize_pad")
def resize_pad(size: ImageSize, fill: Brightness = 0) -> Cut:
    """Resizes to what fits into `size`, keeps the aspect ratio, and pads the rest with `fill` (0 to 255)."""
    sides = sides_of(size)

    def target(height, width):
        scale = tf.minimum(sides.height / height, sides.width / width)
        return tf.maximum(tf.round(height * scale), 1), tf.maximum(tf.round(width * scale), 1)

    return Cut(target=target, finish=lambda image: padded(image - fill, sides) + fill)


# Of an image that is longer than so many times its width only the middle is used: the whole, resized to the width of a
# network's input, would fill the memory.
LONGEST_SHAPE = 32


@register("transform", "resize_short")
def resize_short(size: ImageSize) -> Cut:
    """Resizes the shorter side to `size`, and keeps the aspect ratio; of (height, width), to what just covers both."""
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
    """Rotates around the center by a random angle; the size stays, so that corners are cut off.

    Args:
        degrees: lowest and highest angle; above 0 it is counterclockwise.
        fill_mode: how corners are filled: 'constant' with `fill`, 'reflect' with the mirrored image, 'wrap' with the
            repeated image, 'nearest' with the nearest pixel.
        fill: brightness of the corners, 0 to 255.
        probability: probability that an image is rotated.
    """

    def step(image, seed):
        drawn = degrees[0] + tf.random.stateless_uniform([], seed) * (degrees[1] - degrees[0])
        return transformed(image, rotation(drawn), fill_mode=fill_mode, fill=fill)

    return with_probability(probability, step)


@register("transform", "trim_border")
def trim_border(
    brightness: Annotated[float, number(above=0, at_most=255)] = 250.0, margin: Annotated[int, integer(0)] = 15
) -> ImageStep:
    """Crops the image to all pixels darker than `brightness`, and a margin; an image without any stays whole.

    Example: `--train_transform='trim_border|resize_pad(size=256, fill=255)|random_crop|flip'`, as for Stanford Online
    Products in the code of Lifted Structure.

    Args:
        brightness: pixels of this brightness or more, up to 255, are border.
        margin: pixels of the border that stay on each side.
    """

    def step(image, seed):
        del seed
        dark = tf.tensordot(image, tf.constant(BRIGHTNESS_WEIGHTS), 1) < brightness
        (top, height), (left, width) = (_extent(tf.reduce_any(dark, axis), margin) for axis in (1, 0))
        return slice_window(image, top, left, height, width)

    return step


def _extent(marked, margin):
    """Returns the first place and the length of what is marked `[n]`, with a margin; all of it if nothing is."""
    places = tf.cast(tf.where(marked)[:, 0], tf.int32)
    count = tf.size(marked)
    nothing = tf.size(places) == 0
    # The largest and the smallest integer, where there is no place.
    first = tf.where(nothing, 0, tf.maximum(tf.reduce_min(places), margin) - margin)
    last = tf.where(nothing, count, tf.minimum(tf.reduce_max(places), count - 1 - margin) + margin + 1)
    return first, last - first


@register("transform", "warp")
def warp(size: ImageSize) -> Cut:
    """Resizes to `size`, and ignores the aspect ratio."""
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
    """Fills a rectangle of random area, aspect ratio and place.

    Args:
        probability: probability that an image is changed.
        area: lowest and highest fraction of the image.
        aspect: lowest and highest width by height of the rectangle.
        fill: brightness of the rectangle, 0 to 255. Default: the mean of ImageNet.
        noise: whether to fill with random pixels instead of `fill`.
    """

    def step(image, seed):
        height, width = tf.unstack(tf.cast(tf.shape(image)[:2], tf.float32))
        top, left, rows, columns = first_fitting(height, width, seed, area=area, aspect=aspect, otherwise=(0.0, 0.0))
        # All channels in one axis, since TensorFlow is slow where it repeats three numbers.
        flat = tf.reshape(image, tf.stack([tf.shape(image)[0], -1]))
        erased = tf.matmul(_within(height, top, rows)[:, None], tf.repeat(_within(width, left, columns), 3)[None])
        pixels = tf.random.experimental.stateless_fold_in(seed, 1)
        paint = 255 * tf.random.stateless_uniform(tf.shape(flat), pixels) if noise else fill
        return tf.reshape(tf.where(erased > 0, paint, flat), tf.shape(image))

    return with_probability(probability, step)


def _within(length, first, count):
    """Returns `length` numbers: 1 at the `count` places from `first` on, 0 elsewhere."""
    places = tf.range(length)
    return tf.cast((places >= first) & (places < first + count), tf.float32)

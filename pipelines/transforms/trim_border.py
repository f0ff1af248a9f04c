"""Removal of a bright border around what an image shows, as photos of products on white have it."""

from typing import Annotated

import tensorflow as tf

from pipelines.images.crop_and_resize import slice_window
from pipelines.transforms.colors import BRIGHTNESS_WEIGHTS
from tfdml.registry import register
from tfdml.registry.arguments import ImageStep, integer, number


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

"""Crops at a random place."""

from typing import Annotated

import tensorflow as tf

from pipelines.images.crop_and_resize import Cut
from pipelines.transforms.windows import padded, placed
from tfdml.registry import register
from tfdml.registry.arguments import ImageSize, ImageStep, integer, sides_of

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

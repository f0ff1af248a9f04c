"""Crops at the center."""

import tensorflow as tf

from pipelines.images.crop_and_resize import Cut
from pipelines.transforms.windows import centered, padded
from tfdml.registry import register
from tfdml.registry.arguments import ImageSize, sides_of


@register("transform", "center_crop")
def center_crop(size: ImageSize) -> Cut:
    """Crops the central part of `size`; smaller images are padded with black."""
    sides = sides_of(size)

    def window(height, width, seed):
        del seed
        return centered(height, width, tf.minimum(height, sides.height), tf.minimum(width, sides.width))

    return Cut(window, finish=lambda image: padded(image, sides))

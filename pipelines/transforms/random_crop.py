"""Crops at a random place."""

import tensorflow as tf

from pipelines.images.crop_and_resize import Cut
from pipelines.transforms.windows import padded, placed
from tfdml.registry.image_sizes import ImageSize, sides_of
from tfdml.registry.parts import register


@register("transform", "random_crop")
def random_crop(size: ImageSize) -> Cut:
    """Crops a random part of `size`; smaller images are padded with black first."""
    sides = sides_of(size)

    def window(height, width, seed):
        rows, columns = tf.minimum(height, sides.height), tf.minimum(width, sides.width)
        return placed(height, width, rows, columns, tf.random.stateless_uniform([2], seed))

    return Cut(window, finish=lambda image: padded(image, sides), random=True)

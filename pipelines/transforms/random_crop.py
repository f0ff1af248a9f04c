"""Square crops at a random place."""

import tensorflow as tf

from pipelines.images.crop_and_resize import Cut
from pipelines.transforms.windows import padded, placed
from tfdml.registry.arguments import Side
from tfdml.registry.parts import register


@register("transform", "random_crop")
def random_crop(size: Side) -> Cut:
    """Crops a random square of `size`; smaller images are padded with black first."""

    def window(height, width, seed):
        rows, columns = tf.minimum(height, size), tf.minimum(width, size)
        return placed(height, width, rows, columns, tf.random.stateless_uniform([2], seed))

    return Cut(window, finish=lambda image: padded(image, size), random=True)

"""Square crops at the center."""

import tensorflow as tf

from pipelines.images.crop_and_resize import Cut
from pipelines.transforms.windows import centered, padded
from tfdml.registry.arguments import Side
from tfdml.registry.parts import register


@register("transform", "center_crop")
def center_crop(size: Side) -> Cut:
    """Crops the central square of `size`; smaller images are padded with black."""

    def window(height, width, seed):
        del seed
        return centered(height, width, tf.minimum(height, size), tf.minimum(width, size))

    return Cut(window, finish=lambda image: padded(image, size))

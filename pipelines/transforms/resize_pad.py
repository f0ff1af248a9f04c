"""Resizing to what fits into a size, with padding."""

import tensorflow as tf

from pipelines.images.crop_and_resize import Cut
from pipelines.transforms.windows import padded
from tfdml.registry import register
from tfdml.registry.arguments import Brightness, ImageSize, sides_of


@register("transform", "resize_pad")
def resize_pad(size: ImageSize, fill: Brightness = 0) -> Cut:
    """Resizes to what fits into `size`, keeps the aspect ratio, and pads the rest with `fill` (0 to 255)."""
    sides = sides_of(size)

    def target(height, width):
        scale = tf.minimum(sides.height / height, sides.width / width)
        return tf.maximum(tf.round(height * scale), 1), tf.maximum(tf.round(width * scale), 1)

    return Cut(target=target, finish=lambda image: padded(image - fill, sides) + fill)

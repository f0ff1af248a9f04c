"""Resizing of the longer side, with padding to a square."""

import tensorflow as tf

from pipelines.images.crop_and_resize import Cut
from pipelines.transforms.windows import padded
from tfdml.registry.arguments import Brightness, Side
from tfdml.registry.parts import register


@register("transform", "resize_pad")
def resize_pad(size: Side, fill: Brightness = 0) -> Cut:
    """Resizes the longer side to `size`, keeps the aspect ratio, and pads the shorter side with `fill` (0 to 255)."""

    def target(height, width):
        scale = size / tf.maximum(height, width)
        return tf.maximum(tf.round(height * scale), 1), tf.maximum(tf.round(width * scale), 1)

    return Cut(target=target, finish=lambda image: padded(image - fill, size) + fill)

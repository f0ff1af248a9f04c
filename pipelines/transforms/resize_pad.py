"""Resizing of the longer side, with padding to a square."""

import tensorflow as tf

from pipelines.images.cut import Cut
from pipelines.transforms.windows import padded
from tfdml.registry.arguments import MOST_SIDE, integer, number
from tfdml.registry.parts import register


@register("transform", "resize_pad", size=integer(1, at_most=MOST_SIDE), fill=number(at_least=0, at_most=255))
def resize_pad(size: int, fill: float = 0) -> Cut:
    """Resizes the longer side to `size`, keeps the aspect ratio, and pads the shorter side with `fill` (0 to 255)."""

    def target(height, width):
        scale = size / tf.maximum(height, width)
        return tf.maximum(tf.round(height * scale), 1), tf.maximum(tf.round(width * scale), 1)

    return Cut(target=target, finish=lambda image: padded(image - fill, size) + fill)

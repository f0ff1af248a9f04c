"""Resizing of the shorter side."""

import tensorflow as tf

from pipelines.images.crop_and_resize import Cut
from pipelines.transforms.windows import centered
from tfdml.registry.arguments import Side
from tfdml.registry.parts import register

# Of an image that is longer than so many times its width only the middle is used: the whole, resized to the width of a
# network's input, would fill the memory.
LONGEST_SHAPE = 32


@register("transform", "resize_short")
def resize_short(size: Side) -> Cut:
    """Resizes the shorter side to `size`, and keeps the aspect ratio."""

    def window(height, width, seed):
        del seed
        longest = LONGEST_SHAPE * tf.minimum(height, width)
        return centered(height, width, tf.minimum(height, longest), tf.minimum(width, longest))

    def target(height, width):
        scale = size / tf.minimum(height, width)
        return tf.maximum(tf.round(height * scale), size), tf.maximum(tf.round(width * scale), size)

    return Cut(window, target=target)

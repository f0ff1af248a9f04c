"""Resizing to what covers a size."""

import tensorflow as tf

from pipelines.images.crop_and_resize import Cut
from pipelines.transforms.windows import centered
from tfdml.registry import register
from tfdml.registry.arguments import ImageSize, sides_of

# Of an image that is longer than so many times its width only the middle is used: the whole, resized to the width of a
# network's input, would fill the memory.
LONGEST_SHAPE = 32


@register("transform", "resize_short")
def resize_short(size: ImageSize) -> Cut:
    """Resizes the shorter side to `size`, and keeps the aspect ratio; of (height, width), to what just covers both."""
    sides = sides_of(size)

    def window(height, width, seed):
        del seed
        longest = LONGEST_SHAPE * tf.minimum(height, width)
        return centered(height, width, tf.minimum(height, longest), tf.minimum(width, longest))

    def target(height, width):
        scale = tf.maximum(sides.height / height, sides.width / width)
        return tf.maximum(tf.round(height * scale), sides.height), tf.maximum(tf.round(width * scale), sides.width)

    return Cut(window, target=target)

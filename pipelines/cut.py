"""The step of a transform that decoding can begin with."""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from pipelines.resizing import resize


@dataclasses.dataclass(frozen=True)
class Cut:
    """Takes a window of an image, resizes it, and finishes it: a function `(image, seed) -> image`.

    It is told in parts, so that a decoder can give the window alone, and smaller where it is to be resized anyway.

    Args:
        window: function `(height, width, seed)` of the image that gives the window's top, left, height and width; all
            are whole numbers in float32 scalars. None: the whole image.
        target: function `(height, width)` of the window that gives the size to resize it to. None: it stays.
        finish: function `image -> image` for what comes after, such as padding. None: nothing.
        random: whether the window depends on the seed.
    """

    window: Callable | None = None
    target: Callable | None = None
    finish: Callable | None = None
    random: bool = False

    def __call__(self, image, seed):
        height, width = tf.unstack(tf.cast(tf.shape(image)[:2], tf.float32))
        top, left, rows, columns = self.window_of(height, width, seed)
        return self.complete(slice_window(image, top, left, rows, columns), rows, columns)

    def window_of(self, height, width, seed):
        """Top, left, height and width of the window in an image of this size."""
        return self.window(height, width, seed) if self.window else (0.0, 0.0, height, width)

    def complete(self, pixels, height, width):
        """The result, float32, from the pixels of a window whose size in the image is `height` × `width`."""
        image = resize(pixels, *self.target(height, width)) if self.target else tf.cast(pixels, tf.float32)
        return self.finish(image) if self.finish else image


def slice_window(image, top, left, height, width):
    """The part of an image that a window names."""
    top, left, height, width = (tf.cast(value, tf.int32) for value in (top, left, height, width))
    return image[top : top + height, left : left + width]

"""The step of a transform that decoding can begin with."""

import dataclasses
import functools
from collections.abc import Callable

import tensorflow as tf

from pipelines.images.resizing import resize, resize_part


@dataclasses.dataclass(frozen=True)
class Cut:
    """Takes a window of an image, resizes it, and finishes it: a function `(image, seed) -> image`.

    It is told in parts, so that a decoder can give the window alone, and smaller where it is to be resized anyway.

    Args:
        window: function `(height, width, seed)` of the image that gives the window's top, left, height and width; all
            are whole numbers in float32 scalars. None: the whole image.
        target: function `(height, width)` of the window that gives the size to resize it to. None: it stays.
        part: function `(height, width)` of the resized window that gives what is wanted of it, as `window` does. None:
            all of it.
        finish: function `image -> image` for what comes after, such as padding. None: nothing.
        random: whether the window depends on the seed.
    """

    window: Callable | None = None
    target: Callable | None = None
    part: Callable | None = None
    finish: Callable | None = None
    random: bool = False

    def __call__(self, image, seed):
        window, complete = self.plan(*tf.unstack(tf.cast(tf.shape(image)[:2], tf.float32)), seed)
        return complete(slice_window(image, *window))

    def plan(self, height, width, seed):
        """What is done with an image of this size.

        Returns:
            The top, left, height and width of what it needs of the image, and a function of these pixels, or of as
            many fewer as a decoder made of them, that gives the result, float32.
        """
        window = self.window(height, width, seed) if self.window else (0.0, 0.0, height, width)
        if self.part:
            return self._plan_part(*window)
        if self.target:
            return window, lambda pixels: self._finished(resize(pixels, *self.target(*window[2:])))
        return window, lambda pixels: self._finished(tf.cast(pixels, tf.float32))

    def then(self, other):
        """One cut that does both, other than in rounding; None where there is none.

        What the other one leaves out is then not computed by this one.
        """
        if not self.target or self.part or self.finish or not other.window or other.target or other.random:
            return None
        return dataclasses.replace(self, part=functools.partial(other.window, seed=None), finish=other.finish)

    def _plan_part(self, top, left, height, width):
        sizes = [tf.cast(size, tf.float32) for size in self.target(height, width)]
        part = self.part(*sizes)
        down, rows, resized_rows = _needed(part[0], part[2], sizes[0], height)
        right, columns, resized_columns = _needed(part[1], part[3], sizes[1], width)
        window = top + down, left + right, rows, columns
        return window, lambda pixels: self._finished(resize_part(pixels, resized_rows, resized_columns))

    def _finished(self, image):
        return self.finish(image) if self.finish else image


def _needed(first, count, length, now):
    """What is read along one axis of `now` pixels for `count` from `first` on of the `length` that it is resized to.

    Returns:
        Where to begin and how many pixels to read, and what `resize_part` makes of these.
    """
    scale = length / now
    # So far a pixel of the result sees, and one more for rounding.
    reach = tf.maximum(1 / scale, 1.0) + 1.0
    begin = tf.maximum(tf.floor(first / scale - reach), 0.0)
    end = tf.minimum(tf.math.ceil((first + count) / scale + reach), now)
    return begin, end - begin, (count, scale, begin * scale - first)


def slice_window(image, top, left, height, width):
    """The part of an image that a window names."""
    top, left, height, width = (tf.cast(value, tf.int32) for value in (top, left, height, width))
    return image[top : top + height, left : left + width]

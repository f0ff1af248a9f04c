"""`Cut`: crops and resizes, the step of a transform with which decoding can begin."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Self

import tensorflow as tf

from pipelines.images.resizing import KERNELS, resize, resize_part
from tfdml.registry.arguments import Interpolation, Tensor


@dataclasses.dataclass(frozen=True)
class Cut:
    """Crops a window of an image, resizes it, and finishes it: a function `(image, seed) -> image`.

    Its parts are separate, so that a decoder can decode the window alone, and smaller where it is resized anyway.

    Args:
        window: function from the image's `(height, width, seed)` to the window's top, left, height and width, whole
            numbers in float32 scalars. Default: the whole image.
        target: function from the window's `(height, width)` to the size that it is resized to. Default: its own.
        part: function from the resized window's `(height, width)` to the part to keep, as `window` returns it. Default:
            all of it.
        finish: function `image -> image` that comes last, such as padding. Default: none.
        random: whether the window depends on the seed.
        interpolation: as of `pipelines.images.resizing.resize`.
    """

    window: Callable | None = None
    target: Callable | None = None
    part: Callable | None = None
    finish: Callable | None = None
    random: bool = False
    interpolation: Interpolation = "bilinear"

    def __call__(self, image, seed):
        window, complete = self.plan(*tf.unstack(tf.cast(tf.shape(image)[:2], tf.float32)), seed)
        return complete(slice_window(image, *window))

    def plan(self, height: Tensor, width: Tensor, seed: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Plans the cut of an image of this size.

        Returns:
            The top, left, height and width of the pixels that it needs, and a function from these pixels, or from
            fewer where a decoder shrank them, to the result, float32.
        """
        window = self.window(height, width, seed) if self.window else (0.0, 0.0, height, width)
        if self.part:
            return self._plan_part(*window)
        if self.target:
            return window, lambda pixels: self._finished(resize(pixels, *self.target(*window[2:]), self.interpolation))
        return window, lambda pixels: self._finished(tf.cast(pixels, tf.float32))

    def then(self, other: Self) -> "Cut | None":
        """Returns one cut in place of this one and another, equal but for rounding; None if one cannot do both.

        It does not compute the pixels that the other one drops.
        """
        if not self.target or self.part or self.finish or not other.window or other.target or other.random:
            return None
        return dataclasses.replace(self, part=functools.partial(other.window, seed=None), finish=other.finish)

    def _plan_part(self, top, left, height, width):
        sizes = [tf.cast(size, tf.float32) for size in self.target(height, width)]
        part = self.part(*sizes)
        reach = KERNELS[self.interpolation][1]
        down, rows, resized_rows = _needed(part[0], part[2], sizes[0], height, reach)
        right, columns, resized_columns = _needed(part[1], part[3], sizes[1], width, reach)
        window = top + down, left + right, rows, columns
        parts = resized_rows, resized_columns, self.interpolation
        return window, lambda pixels: self._finished(resize_part(pixels, *parts))

    def _finished(self, image):
        return self.finish(image) if self.finish else image


def _needed(first, count, length, now, reach):
    """Finds the pixels along one axis that `count` pixels of the resized image, from `first` on, are made of.

    Args:
        first, count: of the resized image.
        length, now: the axis' length when resized, and before.
        reach: that of the interpolation, see `KERNELS`.

    Returns:
        Where to begin, how many pixels to read, and the arguments of `resize_part` for these.
    """
    scale = length / now
    # So far a pixel of the result sees, and one more for rounding.
    reach = reach * tf.maximum(1 / scale, 1.0) + 1.0
    begin = tf.maximum(tf.floor(first / scale - reach), 0.0)
    end = tf.minimum(tf.math.ceil((first + count) / scale + reach), now)
    return begin, end - begin, (count, scale, begin * scale - first)


def slice_window(image: Tensor, top: Tensor, left: Tensor, height: Tensor, width: Tensor) -> tf.Tensor:
    """Returns the part of an image that is in a window."""
    top, left, height, width = (tf.cast(value, tf.int32) for value in (top, left, height, width))
    return image[top : top + height, left : left + width]

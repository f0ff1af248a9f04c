"""Crops and resizes with antialiasing, the first step of a transform."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Self

from pipelines.images.pillow import resized_part
from pipelines.operations import tf
from tfdml.registry.arguments import Interpolation, Tensor
from tfdml.runtime.backends import uses_tensorflow

# TensorFlow's name of each kernel, and how many pixels of the smaller image it reaches to either side.
KERNELS = {
    "bilinear": ("triangle", 1),
    "bicubic": ("keyscubic", 2),
    "lanczos3": ("lanczos3", 3),
    "lanczos5": ("lanczos5", 5),
}


def resize(
    image: Tensor, height: int | Tensor, width: int | Tensor, interpolation: Interpolation = "bilinear"
) -> tf.Tensor:
    """Resizes `[H, W, 3]` of any real type to float32 `[height, width, 3]`, like `tf.image.resize(antialias=True)`.

    Pixels are from 0 to 255. Results of interpolations other than `bilinear` are clipped to that range.
    """
    now = tf.cast(tf.shape(image)[:2], tf.float32)
    rows, columns = (
        (length, tf.cast(tf.cast(length, tf.int32), tf.float32) / now[axis], 0.0)
        for axis, length in enumerate((height, width))
    )
    return resize_part(image, rows, columns, interpolation)


def resize_part(
    image: Tensor,
    rows: tuple[Tensor, Tensor, Tensor],
    columns: tuple[Tensor, Tensor, Tensor],
    interpolation: Interpolation = "bilinear",
) -> tf.Tensor:
    """Resizes an image `[H, W, 3]` and returns only some rows and columns of the result.

    `rows` and `columns` are tuples of the number of pixels to return, the scale, and the shift in pixels of the result.

    TensorFlow's operation is fast along columns, because it then processes whole rows of numbers at once. Along rows,
    it processes single pixels and is slow. So it runs along columns twice, and the image is transposed in between.
    """
    if not uses_tensorflow():
        resized = resized_part(image, rows, columns, interpolation)
        return resized if interpolation == "bilinear" else tf.clip_by_value(resized, 0.0, 255.0)
    # This is faster than the conversion inside the operation.
    image = tf.cast(image, tf.float32)
    turned = _turned(_columns_resized(image, *rows, interpolation))
    resized = _turned(_columns_resized(turned, *columns, interpolation))
    # Bilinear pixels are means. All other kernels overshoot at edges, but later transforms expect pixels in the range.
    return resized if interpolation == "bilinear" else tf.clip_by_value(resized, 0.0, 255.0)


def _columns_resized(image, count, scale, translation, interpolation):
    """Returns the image with its columns resized to `count` pixels."""
    width, known_width = tf.shape(image)[1], image.shape[1]
    resized = tf.raw_ops.ScaleAndTranslate(
        images=tf.reshape(image, [1, tf.shape(image)[0], 1, 3 * width]),
        size=tf.stack([tf.cast(count, tf.int32), 1]),
        scale=tf.stack([scale, 1.0]),
        translation=tf.stack([translation, 0.0]),
        kernel_type=KERNELS[interpolation][0],
        antialias=True,
    )
    resized = tf.reshape(resized, tf.stack([tf.cast(count, tf.int32), width, 3]))
    return tf.ensure_shape(resized, [count if isinstance(count, int) else None, known_width, 3])


def _turned(image):
    return tf.transpose(image, [1, 0, 2])


@dataclasses.dataclass(frozen=True)
class Cut:
    """Transform that crops a window of an image, resizes it and finishes it: a function `(image, seed) -> image`.

    Its steps are separate, so that a decoder can decode only the window, at a smaller size if it is resized anyway.

    Args:
        window: Function from the image's `(height, width, seed)` to the window's top, left, height and width, which are
            whole numbers in float32 scalars. If `None`, the window is the whole image. Defaults to `None`.
        target: Function from the window's `(height, width)` to the size after resizing. If `None`, the window is not
            resized. Defaults to `None`.
        part: Function from the resized window's `(height, width)` to the part to keep, in the format of `window`. If
            `None`, all of it is kept. Defaults to `None`.
        finish: Function `image -> image` for the last step, such as padding, or `None`. Defaults to `None`.
        random: Boolean. Whether the window depends on the seed. Defaults to `False`.
        interpolation: See `pipelines.images.resizing.resize`. Defaults to `"bilinear"`.
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

        Returns the top, left, height and width of the pixels that it needs, and a function from these pixels (or fewer,
        if a decoder shrank them) to the result, float32.
        """
        window = self.window(height, width, seed) if self.window else (0.0, 0.0, height, width)
        if self.part:
            return self._plan_part(*window)
        if self.target:
            return window, lambda pixels: self._finished(resize(pixels, *self.target(*window[2:]), self.interpolation))
        return window, lambda pixels: self._finished(tf.cast(pixels, tf.float32))

    def then(self, other: Self) -> "Cut | None":
        """Returns one cut that replaces this one and another, equal except for rounding, or None if there is none.

        It does not compute the pixels that the other cut drops.
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
    """Finds the pixels along one axis that determine `count` pixels of the resized image, starting at `first`.

    The axis has `now` pixels before and `length` pixels after resizing. Returns the first pixel to read, the number of
    pixels to read, and the arguments of `resize_part` for them.
    """
    scale = length / now
    # The reach of the kernel, plus one pixel for rounding.
    reach = reach * tf.maximum(1 / scale, 1.0) + 1.0
    begin = tf.maximum(tf.floor(first / scale - reach), 0.0)
    end = tf.minimum(tf.math.ceil((first + count) / scale + reach), now)
    return begin, end - begin, (count, scale, begin * scale - first)


def slice_window(image: Tensor, top: Tensor, left: Tensor, height: Tensor, width: Tensor) -> tf.Tensor:
    """Returns the part of an image inside a window."""
    top, left, height, width = (tf.cast(value, tf.int32) for value in (top, left, height, width))
    return image[top : top + height, left : left + width]

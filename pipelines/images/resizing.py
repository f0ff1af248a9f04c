"""Resizing with antialiasing: the pixels of `tf.image.resize`, bit for bit, in less than half of its time."""

import tensorflow as tf

from tfdml.registry.arguments import Interpolation, Tensor

# TensorFlow's name of each kernel, and how many pixels it reaches to either side, of the smaller image.
KERNELS = {
    "bilinear": ("triangle", 1),
    "bicubic": ("keyscubic", 2),
    "lanczos3": ("lanczos3", 3),
    "lanczos5": ("lanczos5", 5),
}


def resize(
    image: Tensor, height: int | Tensor, width: int | Tensor, interpolation: Interpolation = "bilinear"
) -> tf.Tensor:
    """Resizes `[H, W, 3]` of any real type to float32 `[height, width, 3]`, as `tf.image.resize(antialias=True)` does.

    Args:
        image: the image, with pixels from 0 to 255; what others than `bilinear` make of it is cut there, too.
        height, width: Python integers, or numbers in scalar tensors.
        interpolation: that of `tf.image.resize`.
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
    """Resizes an image and returns only some rows and columns of the result.

    TensorFlow's operation is fast along columns, where it works on whole rows of numbers at once, and slow along rows,
    pixel by pixel. So it is used along columns twice, with the image transposed in between.

    Args:
        image: `[H, W, 3]` of any real type.
        rows, columns: for each the count to return, the scale of the result, and how far it is then moved, in pixels of
            the result.
        interpolation: as of `resize`.
    """
    # Faster than the conversion inside the operation.
    image = tf.cast(image, tf.float32)
    turned = _turned(_columns_resized(image, *rows, interpolation))
    resized = _turned(_columns_resized(turned, *columns, interpolation))
    # Bilinear pixels are means. All others overshoot at edges, and later transforms expect pixels.
    return resized if interpolation == "bilinear" else tf.clip_by_value(resized, 0.0, 255.0)


def _columns_resized(image, count, scale, translation, interpolation):
    """The image with its columns resized, `count` pixels of them."""
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

"""Operations on colors, for the transforms that change them.

Numbers are those of Pillow and torchvision, in float32 without rounding between steps.
"""

import tensorflow as tf

# Weights of red, green and blue in the brightness of a pixel: ITU-R BT.601, as in JPEG, Pillow and torchvision.
BRIGHTNESS_WEIGHTS = (0.299, 0.587, 0.114)


def change_brightness(image, factor):
    """Multiplies pixels by the factor."""
    return _bounded(image * factor)


def change_contrast(image, factor):
    """Multiplies the distance of pixels from the mean brightness of the image by the factor."""
    return blend(image, tf.reduce_mean(_brightness_of(image)), factor)


def change_saturation(image, factor):
    """Multiplies the distance of pixels from gray of their brightness by the factor."""
    return blend(image, gray_of(image), factor)


def turn_hue(image, share):
    """Rotates hues by this fraction of the color circle."""
    return _bounded(tf.raw_ops.AdjustHue(images=image, delta=share))


def gray_of(image):
    """Returns the image in gray, `[H, W, 3]`."""
    weights = tf.tile(tf.constant(BRIGHTNESS_WEIGHTS)[:, None], [1, 3])
    return tf.reshape(tf.matmul(tf.reshape(image, [-1, 3]), weights), tf.shape(image))


def blend(image, other, factor):
    """Interpolates, or extrapolates, from the other image at factor 0 to the image at factor 1."""
    return _bounded(other + factor * (image - other))


def _brightness_of(image):
    return tf.matmul(tf.reshape(image, [-1, 3]), tf.constant(BRIGHTNESS_WEIGHTS)[:, None])


def _bounded(image):
    return tf.clip_by_value(image, 0.0, 255.0)

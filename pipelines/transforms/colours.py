"""Operations on colours, for the transforms that change them.

Numbers are those of Pillow and torchvision, in float32 without rounding between steps.
"""

import tensorflow as tf

# Of red, green and blue in how bright a pixel is: ITU-R BT.601, as in JPEG, Pillow and torchvision.
BRIGHTNESS_WEIGHTS = (0.299, 0.587, 0.114)


def change_brightness(image, factor):
    """Multiplies pixels by the factor."""
    return _bounded(image * factor)


def change_contrast(image, factor):
    """Multiplies by the factor how far pixels are from the mean brightness of the image."""
    return blend(image, tf.reduce_mean(_brightness_of(image)), factor)


def change_saturation(image, factor):
    """Multiplies by the factor how far pixels are from grey of their brightness."""
    return blend(image, grey_of(image), factor)


def turn_hue(image, share):
    """Turns hues by this share of the colour circle."""
    return _bounded(tf.raw_ops.AdjustHue(images=image, delta=share))


def grey_of(image):
    """The image without colours, `[H, W, 3]`."""
    weights = tf.tile(tf.constant(BRIGHTNESS_WEIGHTS)[:, None], [1, 3])
    return tf.reshape(tf.matmul(tf.reshape(image, [-1, 3]), weights), tf.shape(image))


def blend(image, other, factor):
    """The image at factor 1, the other one at 0, and what lies between them or beyond."""
    return _bounded(other + factor * (image - other))


def _brightness_of(image):
    return tf.matmul(tf.reshape(image, [-1, 3]), tf.constant(BRIGHTNESS_WEIGHTS)[:, None])


def _bounded(image):
    return tf.clip_by_value(image, 0.0, 255.0)

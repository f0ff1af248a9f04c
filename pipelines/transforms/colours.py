"""The steps of a transform that change colours.

Numbers are those of Pillow and torchvision, in float32 without rounding between steps.
"""

import tensorflow as tf

from pipelines.transforms.with_probability import PROBABILITY, with_probability
from tfdml.arguments import number
from tfdml.registry import register

# Of red, green and blue in how bright a pixel is: ITU-R BT.601, as in JPEG, Pillow and torchvision.
BRIGHTNESS_WEIGHTS = (0.299, 0.587, 0.114)


@register("transform", "grayscale", probability=PROBABILITY)
def grayscale(probability=1.0):
    """Takes away colours: 0.299 red + 0.587 green + 0.114 blue in all three channels."""
    return with_probability(probability, lambda image, seed: grey_of(image))


@register(
    "transform",
    "color_jitter",
    **{name: number(at_least=0) for name in ("brightness", "contrast", "saturation")},
    hue=number(at_least=0, at_most=0.5),
    probability=PROBABILITY,
)
def color_jitter(brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1, probability=1.0):
    """Changes brightness, contrast, saturation and hue at random, in this order.

    Args:
        brightness, contrast, saturation: each is multiplied by a factor from `1 - number`, but no less than 0, to
            `1 + number`; 0 leaves it as it is.
        hue: it is turned by as much as this share of the colour circle, one way or the other; 0 leaves it as it is.
        probability: of an image to be changed.
    """
    changes = [(change_brightness, brightness), (change_contrast, contrast), (change_saturation, saturation)]

    def step(image, seed):
        uniform = tf.random.stateless_uniform([4], seed)
        for place, (change, most) in enumerate(changes):
            low = max(0.0, 1.0 - most)
            if most:
                image = change(image, low + uniform[place] * (1.0 + most - low))
        return turn_hue(image, (2 * uniform[3] - 1) * hue) if hue else image

    return with_probability(probability, step)


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

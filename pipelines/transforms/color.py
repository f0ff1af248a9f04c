"""Transforms of colors and sharpness."""

import math
from typing import Annotated

from pipelines.images.decoding import JPEG
from pipelines.operations import tf
from pipelines.transforms.layer import with_probability
from tfdml.registry import register
from tfdml.registry.arguments import ImageStep, NotNegative, Share, integer, interval, number

# The kernel reaches this many sigma to each side, which covers 99.7% of a Gaussian.
REACH = 3
# A transform can come from a file that somebody sent. A kernel with a billion numbers would fill the memory.
MOST_SIGMA = 100


@register("transform", "blur")
def blur(
    sigma: Annotated[tuple[float, float], interval(number(above=0, at_most=MOST_SIGMA))] = (0.1, 2.0),
    probability: Share = 1.0,
) -> ImageStep:
    """Blurs the image with a Gaussian kernel of random width.

    Args:
        sigma: Lowest and highest standard deviation in pixels. The kernel reaches three times the highest to each side.
            Defaults to `(0.1, 2.0)`.
        probability: Float from 0 to 1. Probability that an image is blurred. Defaults to `1.0`.
    """
    radius = math.ceil(REACH * sigma[1])
    distances = tf.range(-radius, radius + 1, dtype=tf.float32)

    def step(image, seed):
        drawn = sigma[0] + tf.random.stateless_uniform([], seed) * (sigma[1] - sigma[0])
        weights = tf.exp(-0.5 * tf.square(distances / drawn))
        # Clipping is needed because the weights sum to 1 only up to rounding.
        return tf.clip_by_value(filtered(image, weights / tf.reduce_sum(weights), radius), 0.0, 255.0)

    return with_probability(probability, step)


def filtered(image, weights, radius):
    """Applies the weights `[2 * radius + 1]` along the columns and rows of an image `[H, W, 3]`.

    The image is reflected at its edges without repeating the pixels of the edge.
    """
    # Filtering along columns is faster, because it adds whole rows. For rows, the image is transposed; see
    # `resize_part`.
    for _ in range(2):
        image = tf.transpose(_along_columns(image, weights, radius), [1, 0, 2])
    return image


def _along_columns(image, weights, radius):
    height, width = tf.shape(image)[0], tf.shape(image)[1]
    last = height - 1
    # An image that is smaller than the kernel is reflected several times.
    place = tf.math.floormod(tf.range(-radius, height + radius), tf.maximum(2 * last, 1))
    rows = tf.gather(image, tf.minimum(place, 2 * last - place))
    kernel = tf.tile(tf.reshape(weights, [-1, 1, 1, 1]), tf.stack([1, 1, 3 * width, 1]))
    rows = tf.reshape(rows, tf.stack([1, height + 2 * radius, 1, 3 * width]))
    result = tf.nn.depthwise_conv2d(rows, kernel, strides=[1, 1, 1, 1], padding="VALID")
    return tf.ensure_shape(tf.reshape(result, tf.shape(image)), image.shape)


# Weights of red, green and blue in the brightness of a pixel, from ITU-R BT.601 as in JPEG, Pillow and torchvision.
BRIGHTNESS_WEIGHTS = (0.299, 0.587, 0.114)


def change_brightness(image, factor):
    """Multiplies all pixels by the factor."""
    return _bounded(image * factor)


def change_contrast(image, factor):
    """Multiplies the distance of pixels from the mean brightness of the image by the factor."""
    brightness = tf.matmul(tf.reshape(image, [-1, 3]), tf.constant(BRIGHTNESS_WEIGHTS)[:, None])
    return blend(image, tf.reduce_mean(brightness), factor)


def change_saturation(image, factor):
    """Multiplies the distance of pixels from gray of the same brightness by the factor."""
    return blend(image, gray_of(image), factor)


def turn_hue(image, share):
    """Rotates hues by this fraction of the color circle."""
    return _bounded(tf.raw_ops.AdjustHue(images=image, delta=share))


def gray_of(image):
    """Returns the image in gray, `[H, W, 3]`."""
    weights = tf.tile(tf.constant(BRIGHTNESS_WEIGHTS)[:, None], [1, 3])
    return tf.reshape(tf.matmul(tf.reshape(image, [-1, 3]), weights), tf.shape(image))


def blend(image, other, factor):
    """Interpolates (or extrapolates) between the other image at factor 0 and the image at factor 1."""
    return _bounded(other + factor * (image - other))


def _bounded(image):
    return tf.clip_by_value(image, 0.0, 255.0)


@register("transform", "color_jitter")
def color_jitter(
    brightness: NotNegative = 0.4,
    contrast: NotNegative = 0.4,
    saturation: NotNegative = 0.4,
    hue: Annotated[float, number(at_least=0, at_most=0.5)] = 0.1,
    probability: Share = 1.0,
) -> ImageStep:
    """Changes the brightness, contrast, saturation and hue of the image at random.

    Args:
        brightness, contrast, saturation: Floats of at least 0. Each is multiplied by a random factor from
            `max(0, 1 - x)` to `1 + x`. 0 means no change. Default to `0.4`.
        hue: Float from 0 to 0.5. The hue is rotated by up to this fraction of the color circle in both directions. 0
            means no change. Defaults to `0.1`.
        probability: Float from 0 to 1. Probability that an image is changed. Defaults to `1.0`.
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


@register("transform", "grayscale")
def grayscale(probability: Share = 1.0) -> ImageStep:
    """Converts the image to gray, 0.299 red + 0.587 green + 0.114 blue, in all three channels.

    Args:
        probability: Float from 0 to 1. Probability that an image is converted. Defaults to `1.0`.
    """
    return with_probability(probability, lambda image, seed: gray_of(image))


def autocontrast(image):
    """Stretches each channel to 0 ... 255. A channel with a single value is unchanged."""
    low, high = tf.reduce_min(image, axis=[0, 1]), tf.reduce_max(image, axis=[0, 1])
    spread = tf.maximum(high - low, 1e-6)
    return tf.where(high > low, (image - low) * (255 / spread), image)


def equalize(image):
    """Equalizes the histogram of each channel, after rounding to integers."""
    pixels = tf.cast(tf.round(tf.clip_by_value(image, 0.0, 255.0)), tf.int32) + 256 * tf.range(3)
    histograms = tf.reshape(tf.math.bincount(tf.reshape(pixels, [-1]), minlength=768, maxlength=768), [3, 256])
    below = tf.cumsum(histograms, axis=1, exclusive=True)
    # Pillow ignores the last value that occurs in a channel.
    last = tf.reduce_max(tf.where(histograms > 0, tf.range(256), 0), axis=1)
    step = tf.gather(below, last, batch_dims=1)[:, None] // 255
    spread = tf.minimum((step // 2 + below) // tf.maximum(step, 1), 255)
    table = tf.where(step > 0, spread, tf.range(256))
    return tf.cast(tf.gather(tf.reshape(table, [-1]), pixels), tf.float32)


@register("transform", "jpeg")
def jpeg(
    quality: Annotated[tuple[int, int], interval(integer(1, at_most=100))] = (30, 95), probability: Share = 1.0
) -> ImageStep:
    """Adds JPEG compression artifacts: encodes the image with random quality and decodes it.

    Args:
        quality: Lowest and highest quality, from 1 to 100. Defaults to `(30, 95)`.
        probability: Float from 0 to 1. Probability that an image is changed. Defaults to `1.0`.
    """

    def step(image, seed):
        drawn = tf.random.stateless_uniform([], seed, quality[0], quality[1] + 1, tf.int32)
        pixels = tf.cast(tf.round(tf.clip_by_value(image, 0.0, 255.0)), tf.uint8)
        encoded = tf.raw_ops.EncodeJpegVariableQuality(images=pixels, quality=drawn)
        return tf.ensure_shape(tf.cast(tf.io.decode_jpeg(encoded, **JPEG), tf.float32), image.shape)

    return with_probability(probability, step)

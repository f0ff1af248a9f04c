"""Gaussian blur, and other small filters that are applied along rows and columns."""

import math
from typing import Annotated

import tensorflow as tf

from pipelines.transforms.with_probability import with_probability
from tfdml.registry import register
from tfdml.registry.arguments import ImageStep, Share, interval, number

# The kernel ends at so many sigma to each side, which is 99.7 % of a Gaussian.
REACH = 3
# A kernel of a billion numbers, in the transform of a file that somebody sent, would fill memory.
MOST_SIGMA = 100


@register("transform", "blur")
def blur(
    sigma: Annotated[tuple[float, float], interval(number(above=0, at_most=MOST_SIGMA))] = (0.1, 2.0),
    probability: Share = 1.0,
) -> ImageStep:
    """Blurs with a Gaussian whose sigma, in pixels, is drawn from a range.

    Args:
        sigma: lowest and highest sigma. The kernel reaches as far as three times the highest, rounded up.
        probability: probability that an image is blurred.
    """
    radius = math.ceil(REACH * sigma[1])
    distances = tf.range(-radius, radius + 1, dtype=tf.float32)

    def step(image, seed):
        drawn = sigma[0] + tf.random.stateless_uniform([], seed) * (sigma[1] - sigma[0])
        weights = tf.exp(-0.5 * tf.square(distances / drawn))
        # Weights sum to 1 only up to rounding.
        return tf.clip_by_value(filtered(image, weights / tf.reduce_sum(weights), radius), 0.0, 255.0)

    return with_probability(probability, step)


def filtered(image, weights, radius):
    """Applies the weights `[2 * radius + 1]` along columns and along rows of an image `[H, W, 3]`.

    Outside of its edges the image is reflected, without repeating the pixels of the edge.
    """
    # Along columns whole rows of numbers are added: the image is transposed for rows, as in `resize_part`.
    for _ in range(2):
        image = tf.transpose(_along_columns(image, weights, radius), [1, 0, 2])
    return image


def _along_columns(image, weights, radius):
    height, width = tf.shape(image)[0], tf.shape(image)[1]
    last = height - 1
    # Reflected several times where an image is smaller than the kernel.
    place = tf.math.floormod(tf.range(-radius, height + radius), tf.maximum(2 * last, 1))
    rows = tf.gather(image, tf.minimum(place, 2 * last - place))
    kernel = tf.tile(tf.reshape(weights, [-1, 1, 1, 1]), tf.stack([1, 1, 3 * width, 1]))
    rows = tf.reshape(rows, tf.stack([1, height + 2 * radius, 1, 3 * width]))
    result = tf.nn.depthwise_conv2d(rows, kernel, strides=[1, 1, 1, 1], padding="VALID")
    return tf.ensure_shape(tf.reshape(result, tf.shape(image)), image.shape)

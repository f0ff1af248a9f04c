"""Blurring, and other small filters that work along rows and columns alike."""

import math

import tensorflow as tf

from pipelines.transforms.with_probability import PROBABILITY, with_probability
from tfdml.arguments import interval, number
from tfdml.registry import register

# Of a Gaussian so many sigma to each side are kept, 99.7 % of it.
REACH = 3


@register("transform", "blur", sigma=interval(number(above=0)), probability=PROBABILITY)
def blur(sigma=(0.1, 2.0), probability=1.0):
    """Blurs by a Gaussian whose sigma, in pixels, is drawn from a range.

    Args:
        sigma: lowest and highest sigma. The kernel reaches as far as three times the highest, rounded up.
        probability: of an image to be blurred.
    """
    radius = math.ceil(REACH * sigma[1])
    distances = tf.range(-radius, radius + 1, dtype=tf.float32)

    def step(image, seed):
        drawn = sigma[0] + tf.random.stateless_uniform([], seed) * (sigma[1] - sigma[0])
        weights = tf.exp(-0.5 * tf.square(distances / drawn))
        # Weights add up to 1 in rounding only.
        return tf.clip_by_value(filtered(image, weights / tf.reduce_sum(weights), radius), 0.0, 255.0)

    return with_probability(probability, step)


def filtered(image, weights, radius):
    """The image `[H, W, 3]` with the weights `[2 * radius + 1]` applied along columns and along rows.

    Beyond its edges the image goes on as in a mirror, which does not repeat the pixels of the edge.
    """
    # Along columns whole rows of numbers are added, so that the image is turned for rows, as in `resize_part`.
    for _ in range(2):
        image = tf.transpose(_along_columns(image, weights, radius), [1, 0, 2])
    return image


def _along_columns(image, weights, radius):
    height, width = tf.shape(image)[0], tf.shape(image)[1]
    last = height - 1
    # As often to and fro as needed, since an image may be smaller than the kernel.
    place = tf.math.floormod(tf.range(-radius, height + radius), tf.maximum(2 * last, 1))
    rows = tf.gather(image, tf.minimum(place, 2 * last - place))
    kernel = tf.tile(tf.reshape(weights, [-1, 1, 1, 1]), tf.stack([1, 1, 3 * width, 1]))
    rows = tf.reshape(rows, tf.stack([1, height + 2 * radius, 1, 3 * width]))
    result = tf.nn.depthwise_conv2d(rows, kernel, strides=[1, 1, 1, 1], padding="VALID")
    return tf.ensure_shape(tf.reshape(result, tf.shape(image)), image.shape)

"""JPEG compression as a transform step."""

from typing import Annotated

import tensorflow as tf

from pipelines.images.decoding import JPEG
from pipelines.transforms.with_probability import with_probability
from tfdml.registry import register
from tfdml.registry.arguments import ImageStep, Share, integer, interval


@register("transform", "jpeg")
def jpeg(
    quality: Annotated[tuple[int, int], interval(integer(1, at_most=100))] = (30, 95), probability: Share = 1.0
) -> ImageStep:
    """Encodes the image as a JPEG of random quality, and decodes it.

    Args:
        quality: lowest and highest quality, 1 to 100.
        probability: probability that an image is changed.
    """

    def step(image, seed):
        drawn = tf.random.stateless_uniform([], seed, quality[0], quality[1] + 1, tf.int32)
        pixels = tf.cast(tf.round(tf.clip_by_value(image, 0.0, 255.0)), tf.uint8)
        encoded = tf.raw_ops.EncodeJpegVariableQuality(images=pixels, quality=drawn)
        return tf.ensure_shape(tf.cast(tf.io.decode_jpeg(encoded, **JPEG), tf.float32), image.shape)

    return with_probability(probability, step)

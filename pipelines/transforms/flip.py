"""Random mirroring."""

import tensorflow as tf

from tfdml.registry import register
from tfdml.registry.arguments import ImageStep


@register("transform", "flip")
def flip() -> ImageStep:
    """Mirrors left and right with probability 0.5."""

    def step(image, seed):
        mirrored = tf.random.stateless_uniform([], seed) < 0.5
        flipped = tf.cond(mirrored, lambda: tf.reverse(image, axis=[1]), lambda: image)
        return tf.ensure_shape(flipped, image.shape)

    return step

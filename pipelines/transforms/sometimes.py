"""Steps of a transform that are left out of some images."""

import tensorflow as tf

from pipelines.images.seldom import seldom
from tfdml.arguments import number

PROBABILITY = number(at_least=0, at_most=1)


def sometimes(probability, step):
    """The step `(image, seed) -> image`, which keeps the image's shape, done with this probability."""
    if probability == 1:
        return step
    # Images that stay as they are cost nothing.
    changed = seldom(tf.TensorSpec([None, None, 3], tf.float32), tf.TensorSpec([2], tf.int32))(step)

    def maybe(image, seed):
        own = tf.random.experimental.stateless_fold_in(seed, 1)
        drawn = tf.random.stateless_uniform([], seed) < probability
        return tf.ensure_shape(tf.cond(drawn, lambda: changed(image, own), lambda: image), image.shape)

    return maybe

"""Transform steps that change an image with a probability."""

import tensorflow as tf

from pipelines.images.cold_path import cold_path


def with_probability(probability, step):
    """Returns a step `(image, seed) -> image` that applies another with this probability; the shape must stay."""
    if probability == 1:
        return step
    # Costs nothing for images that stay as they are.
    changed = cold_path(tf.TensorSpec([None, None, 3], tf.float32), tf.TensorSpec([2], tf.int32))(step)

    def maybe(image, seed):
        own = tf.random.experimental.stateless_fold_in(seed, 1)
        drawn = tf.random.stateless_uniform([], seed) < probability
        return tf.ensure_shape(tf.cond(drawn, lambda: changed(image, own), lambda: image), image.shape)

    return maybe

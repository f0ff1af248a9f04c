"""Steps of transforms on images in arrays."""

import functools

import numpy as np
import tensorflow as tf

from tfdml import registry

# Smooth enough for filters to agree, with all of the range; higher than wide, so that sides cannot be mistaken.
IMAGE = np.clip(
    128 + 140 * np.sin(np.arange(40)[:, None, None] / 5 + np.arange(30)[:, None] / 3 + np.arange(3)), 0, 255
).round()


@functools.cache
def step_of(spec):
    return tf.function(registry.create("transform", spec), autograph=False)


def apply(spec, image, seed=0):
    """What a step without a size makes of an image; compiled once, for many seeds."""
    return step_of(spec)(tf.constant(np.asarray(image, np.float32)), tf.constant([seed, 7], tf.int64)).numpy()

"""Batches as datasets draw them: in a graph, which loops over steps far faster than Python does."""

import tensorflow as tf


def rows_and_learners(sampler, steps, seed=0):
    """Rows `[n, batch_size]` of these steps and their learners, of a sampler within clusters."""
    both = tf.function(lambda steps: (sampler.rows(seed, steps), sampler.learners(seed, steps)), autograph=False)
    return [found.numpy() for found in both(tf.constant(steps, tf.int64))]

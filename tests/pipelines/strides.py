"""A sampler for tests of what comes after it."""

import numpy as np
import tensorflow as tf

from pipelines.sampling import Sampler


class Strides(Sampler):
    """Rows that depend on the seed, the step and a table; the graph is small, as those of real samplers are not."""

    def __init__(self, batch_size, count):
        self.batch_size = batch_size
        self.bind(np.zeros(count))

    def tables_of(self, labels):
        return [np.random.default_rng(0).permutation(len(labels))]

    def draw_rows(self, seed, steps, table):
        place = steps[:, None] * self.batch_size + tf.range(self.batch_size, dtype=tf.int64)
        return tf.gather(table, (5 * place + 11 * seed) % tf.size(table, tf.int64))

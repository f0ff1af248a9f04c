"""A sampler for tests of what comes after it."""

import numpy as np
import tensorflow as tf


class Strides:
    """Rows that depend on the seed, the step and a table; the graph is small, as those of real samplers are not."""

    def __init__(self, batch_size, count):
        self.batch_size = batch_size
        self._table = tf.Variable(np.random.default_rng(0).permutation(count), trainable=False)

    def tables(self):
        return [self._table.read_value()]

    def rows(self, seed, steps, tables=None):
        (table,) = tables or self.tables()
        place = steps[:, None] * self.batch_size + tf.range(self.batch_size, dtype=tf.int64)
        return tf.gather(table, (5 * place + 11 * tf.cast(seed, tf.int64)) % tf.size(table, tf.int64))

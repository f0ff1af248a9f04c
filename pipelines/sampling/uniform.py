"""Uniform: batches of random rows."""

import tensorflow as tf

from pipelines.sampling.draws import draw
from pipelines.sampling.streams import arguments_of, as_long_as, stream_keys
from tfdml.arguments import integer
from tfdml.registry import register


@register("sampler", "uniform", batch_size=integer(1))
class Uniform:
    """Batches of `batch_size` different rows, each row once before any comes twice.

    Args:
        batch_size: rows in a batch.
    """

    def __init__(self, batch_size=128):
        self.batch_size = batch_size

    def bind(self, labels):
        """Creates the tables for rows with these labels `[N]`."""
        if len(labels) < self.batch_size:
            raise ValueError(
                f"uniform(batch_size={self.batch_size}) needs that many training rows, there are {len(labels)}."
            )
        self._count = tf.Variable(len(labels), trainable=False, dtype=tf.int64)

    def tables(self):
        return [self._count.read_value()]

    def rows(self, seed, steps, tables=None):
        """Returns row numbers `[n, batch_size]` of the batches of `steps` `[n]`."""
        seed, steps, tables = arguments_of(self, seed, steps, tables)
        count = tf.constant(self.batch_size, tf.int64)
        return draw(stream_keys(seed, steps), steps, *as_long_as(steps, tables[0], count), self.batch_size)

"""Replaces images that cannot be read by others of their classes, so that batches keep shape and classes."""

import numpy as np
import tensorflow as tf

from pipelines.sampling import each_alone, group_by_class
from pipelines.sampling.index_shuffle import shuffled_index
from pipelines.sampling.streams import Stream, stream_key

# Images of a class that are tried, one after another, before the run stops.
TRIES = 32


class Substitutes:
    """Chooses rows that replace an unreadable one, and remembers the unreadable rows.

    The choice depends only on the seed and on the place in the run, so a resumed run sees the same images.

    Args:
        labels: `[N]` class numbers of the rows. Where each row is a class of its own, any other row is a substitute.
    """

    def __init__(self, labels):
        labels = np.zeros_like(labels) if each_alone(labels) else labels
        rows, starts, sizes = group_by_class(labels)
        places = np.empty_like(rows)
        places[rows] = np.arange(len(rows)) - np.repeat(starts, sizes)
        self._rows = tf.constant(rows)
        of_class = np.unique(labels, return_inverse=True)[1]
        self._tables = [tf.constant(table) for table in (starts[of_class], sizes[of_class], places)]
        # On the host, where the pipeline runs.
        with tf.device("CPU:0"):
            self.unreadable = tf.Variable(tf.zeros(len(rows), tf.bool), trainable=False)

    def candidates(self, row, seed, number):
        """Returns rows `[1 + TRIES]` to try one after another: the row itself, then others of its class, shuffled.

        Args:
            row: int64 scalar.
            seed: seed of the run, int64.
            number: int64, the place of the image, counted over all batches of the run.
        """
        start, size, place = (table[row] for table in self._tables)
        others = tf.maximum(size - 1, 1)
        turns = tf.range(TRIES, dtype=tf.int64) % others
        keys = tf.fill([TRIES], stream_key(seed, Stream.SUBSTITUTES, number))
        steps = 1 + shuffled_index(turns, keys, tf.fill([TRIES], others))
        return tf.concat([[row], tf.gather(self._rows, start + (place + steps) % size)], 0)

    def note(self, rows, taken):
        """Marks those of `rows` `[B]` as unreadable for which another row was taken."""
        missing = tf.boolean_mask(rows, rows != taken)
        self.unreadable.scatter_update(tf.IndexedSlices(tf.ones_like(missing, tf.bool), missing))

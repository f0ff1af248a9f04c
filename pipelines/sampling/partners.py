"""Rows with partners of their class and of other classes, for samplers of pairs and triplets."""

import dataclasses

import numpy as np
import tensorflow as tf

from pipelines.sampling.draws import draw
from pipelines.sampling.rows_by_class import group_by_class
from pipelines.sampling.streams import Stream, as_long_as, stream_key, stream_keys


@dataclasses.dataclass(frozen=True)
class Drawn:
    """Drawn rows `[n, count]`, as places among the rows sorted by class.

    Args:
        place: place of each.
        start, size: first place and number of rows of its class.
        random: `[n, count]` uint64, a random number for each.
        total: number of all rows.
    """

    place: tf.Tensor
    start: tf.Tensor
    size: tf.Tensor
    random: tf.Tensor
    total: tf.Tensor

    def positives(self):
        """Returns the place of a random row of the same class for each, other than itself."""
        return self.start + (self.place - self.start + 1 + self._below(self.size - 1)) % self.size

    def negatives(self):
        """Returns the place of a random row of another class for each."""
        place = self._below(self.total - self.size)
        return place + tf.where(place < self.start, tf.zeros_like(self.size), self.size)

    def _below(self, limit):
        return tf.cast(self.random % tf.cast(limit, tf.uint64), tf.int64)


def partner_tables(labels, count, sampler):
    """Returns rows sorted by class, the places that are drawn, and start and size of the class at each place.

    Args:
        labels: `[N]`.
        count: rows that a batch draws; fewer are an error.
        sampler: what to call the sampler in errors.
    """
    by_class, starts, sizes = group_by_class(labels)
    place, size = np.arange(len(by_class)), np.repeat(sizes, sizes)
    start, drawn = np.repeat(starts, sizes), place[size > 1]
    if len(drawn) < count or len(sizes) < 2:
        raise ValueError(
            f"{sampler} needs that many training rows in classes of two or more, and two "
            f"classes; there are {len(drawn)} rows and {len(sizes)} classes. Lower it."
        )
    return [by_class, drawn, start, size]


def most_drawn(labels, parts):
    """Returns how many rows a batch can draw without more rows than there are, at least 1.

    Args:
        labels: `[N]`.
        parts: rows of a batch for each that is drawn, itself among them.
    """
    sizes = group_by_class(labels)[2]
    return max(1, min(int(np.sum(sizes[sizes > 1])), len(labels) // parts))


def draw_with_partners(seed, steps, tables, count):
    """Draws `count` rows of classes of two or more for each of the steps; all come once before any comes twice.

    Args:
        seed: int64 scalar.
        steps: `[n]` int64.
        tables: of `partner_tables`.
        count: Python integer.
    """
    _, drawn, start, size = tables
    total, wanted = tf.size(drawn, out_type=tf.int64), tf.constant(count, tf.int64)
    place = tf.gather(drawn, draw(stream_keys(seed, steps), steps, *as_long_as(steps, total, wanted), count))
    number = tf.range(count, dtype=tf.int64)[None, :]
    # A draw from so few rows is in the order of classes, and its first half would always be of the first classes.
    shuffled = tf.bitcast(stream_key(seed, Stream.ORDER, steps[:, None], place), tf.int64)
    order = tf.argsort(tf.where(2 * wanted > total, shuffled, number), axis=1)
    place = tf.gather(place, order, batch_dims=1)
    random = stream_key(seed, Stream.PARTNERS, steps[:, None], number)
    return Drawn(place, tf.gather(start, place), tf.gather(size, place), random, tf.size(size, out_type=tf.int64))

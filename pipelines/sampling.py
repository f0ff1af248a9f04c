"""Samplers: which rows make up a batch, as a pure function of (seed, step) and tables that may be replaced.

A sampler is bound to labels once; that makes its tables, which are variables. `tables()` reads them, at the start of
an epoch, and `rows(seed, steps, tables)` computes the batches of any steps, in any order, with the same result.
"""

import numpy as np
import tensorflow as tf
from absl import logging

from pipelines.draws import draw, fill, times_drawn
from pipelines.index_shuffle import key_of
from tfdml.arguments import integer
from tfdml.registry import register

# What tells the stream of classes from the streams of rows, whose keys are class numbers from 0.
CLASS_STREAM = -1
# As it tells the stream of partners; clusters have -2.
PARTNER_STREAM = -3
ORDER_STREAM = -4


@register("sampler", "pxk", classes=integer(1), per_class=integer(2))
class PxK:
    """Batches of `classes` different classes with `per_class` images each.

    Every class comes once before any comes twice, and so do the images of a class, across batches and epochs. A
    class with fewer images than `per_class` repeats them evenly; one with a single image is left out.

    Args:
        classes: classes in a batch.
        per_class: images of each, 2 or more.
    """

    def __init__(self, classes=32, per_class=4):
        self.classes = classes
        self.per_class = per_class

    @property
    def batch_size(self):
        return self.classes * self.per_class

    def bind(self, labels):
        """Makes the tables for rows with these labels `[N]`."""
        rows, starts, sizes = group_by_class(labels)
        lonely = int(np.sum(sizes == 1))
        if lonely:
            logging.info("%d of %d classes have a single image and are left out of pxk batches.", lonely, len(sizes))
        starts, sizes = starts[sizes > 1], sizes[sizes > 1]
        if len(sizes) < self.classes:
            raise ValueError(
                f"pxk(classes={self.classes}) needs that many classes with two images or more; the training rows "
                f"have {len(sizes)}. Lower classes."
            )
        self._tables = [tf.Variable(table, trainable=False, shape=[None]) for table in (rows, starts, sizes)]

    def tables(self):
        return [table.read_value() for table in self._tables]

    def rows(self, seed, steps, tables=None):
        """Row numbers `[n, batch_size]` of the batches of `steps` `[n]`, class after class."""
        seed, steps, tables = _arguments(self, seed, steps, tables)
        by_class, starts, sizes = tables
        chosen, times = self._classes_of(seed, steps, tf.size(starts, out_type=tf.int64))
        member = fill(key_of(seed, chosen), times, tf.gather(sizes, chosen), self.per_class)
        rows = tf.gather(by_class, tf.gather(starts, chosen)[:, None] + member)
        return tf.reshape(rows, [-1, self.batch_size])

    def _classes_of(self, seed, steps, total):
        """Classes of the steps and how often each came before, both `[n * classes]`."""
        count = tf.constant(self.classes, tf.int64)
        arguments = (class_keys(seed, steps), steps, *as_long_as(steps, total, count))
        chosen = draw(*arguments, self.classes)
        times = times_drawn(*arguments, chosen, self.classes)
        return tf.reshape(chosen, [-1]), tf.reshape(times, [-1])


@register("sampler", "uniform", batch_size=integer(1))
class Uniform:
    """Batches of `batch_size` different rows, each row once before any comes twice.

    Args:
        batch_size: rows in a batch.
    """

    def __init__(self, batch_size=128):
        self.batch_size = batch_size

    def bind(self, labels):
        """Makes the tables for rows with these labels `[N]`."""
        if len(labels) < self.batch_size:
            raise ValueError(
                f"uniform(batch_size={self.batch_size}) needs that many training rows, there are {len(labels)}."
            )
        self._count = tf.Variable(len(labels), trainable=False, dtype=tf.int64)

    def tables(self):
        return [self._count.read_value()]

    def rows(self, seed, steps, tables=None):
        """Row numbers `[n, batch_size]` of the batches of `steps` `[n]`."""
        seed, steps, tables = _arguments(self, seed, steps, tables)
        count = tf.constant(self.batch_size, tf.int64)
        return draw(class_keys(seed, steps), steps, *as_long_as(steps, tables[0], count), self.batch_size)


@register("sampler", "pairs", images=integer(2))
class Pairs:
    """Batches of `images` random rows, then their partners: the first half gets one of its class, the rest of others.

    The mini-batches of Attention-based Ensemble (Sec. 4). Every row whose class has another one comes once before any
    comes twice; partners are drawn with replacement, the negative ones from all rows of other classes.

    Args:
        images: rows that get a partner, even.
    """

    def __init__(self, images=32):
        if images % 2:
            raise ValueError(f"The sampler 'pairs' expects images to be even; received {images}.")
        self.images = images

    @property
    def batch_size(self):
        return 2 * self.images

    def bind(self, labels):
        """Makes the tables for rows with these labels `[N]`."""
        by_class, starts, sizes = group_by_class(labels)
        place, size = np.arange(len(by_class)), np.repeat(sizes, sizes)
        start, drawn = np.repeat(starts, sizes), place[size > 1]
        if len(by_class) > len(drawn):
            alone = len(by_class) - len(drawn)
            logging.info("%d rows are alone in their class and come as negative partners only.", alone)
        if len(drawn) < self.images or len(sizes) < 2:
            raise ValueError(
                f"pairs(images={self.images}) needs that many training rows in classes of two or more, and two "
                f"classes; there are {len(drawn)} rows and {len(sizes)} classes."
            )
        # Of so few rows a draw comes in the order of classes, and its first half are those with positive partners.
        self._in_order = 2 * self.images > len(drawn)
        tables = by_class, drawn, start, size
        self._tables = [tf.Variable(table, trainable=False, shape=[None]) for table in tables]

    def tables(self):
        return [table.read_value() for table in self._tables]

    def rows(self, seed, steps, tables=None):
        """Row numbers `[n, batch_size]` of the batches of `steps` `[n]`: images, then their partners."""
        seed, steps, tables = _arguments(self, seed, steps, tables)
        by_class, drawn, start, size = tables
        count = tf.constant(self.images, tf.int64)
        scalars = as_long_as(steps, tf.size(drawn, out_type=tf.int64), count)
        place = tf.gather(drawn, draw(class_keys(seed, steps), steps, *scalars, self.images))
        if self._in_order:
            shuffled = key_of(seed, tf.constant(ORDER_STREAM, tf.int64), steps[:, None], place)
            place = tf.gather(place, tf.argsort(tf.bitcast(shuffled, tf.int64), axis=1), batch_dims=1)
        start, size = tf.gather(start, place), tf.gather(size, place)
        number = tf.range(self.images, dtype=tf.int64)[None, :]
        random = key_of(seed, tf.constant(PARTNER_STREAM, tf.int64), steps[:, None], number)

        def below(limit):
            return tf.cast(random % tf.cast(limit, tf.uint64), tf.int64)

        # Steps away from the row in its class, or a place among all others.
        positive = start + (place - start + 1 + below(size - 1)) % size
        negative = below(tf.size(by_class, out_type=tf.int64) - size)
        negative += tf.where(negative < start, tf.zeros_like(size), size)
        partner = tf.where(number < self.images // 2, positive, negative)
        return tf.gather(by_class, tf.concat([place, partner], axis=1))


def group_by_class(labels):
    """Flat arrays of rows by class: `(rows [N], first place of each class [C], size of each class [C])`, int64."""
    labels = np.asarray(labels)
    rows = np.argsort(labels, kind="stable").astype(np.int64)
    _, starts, sizes = np.unique(labels[rows], return_index=True, return_counts=True)
    return rows, starts.astype(np.int64), sizes.astype(np.int64)


def _arguments(sampler, seed, steps, tables):
    """Whatever integers a caller has as int64, and the tables as they are now unless they are given."""
    return tf.cast(seed, tf.int64), tf.cast(steps, tf.int64), sampler.tables() if tables is None else tables


def class_keys(seed, steps):
    return tf.fill(tf.shape(steps), key_of(seed, tf.constant(CLASS_STREAM, tf.int64)))


def as_long_as(steps, *scalars):
    return [tf.fill(tf.shape(steps), scalar) for scalar in scalars]

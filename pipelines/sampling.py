"""Samplers: which rows make up a batch, as a pure function of (seed, step) and tables that may be replaced.

A sampler is bound to labels once; that makes its tables, which are variables. `tables()` reads them, at the start of
an epoch, and `rows(seed, steps, tables)` computes the batches of any steps, in any order, with the same result.
"""

import numpy as np
import tensorflow as tf
from absl import logging

from pipelines.draws import draw, fill, times_drawn
from pipelines.index_shuffle import key_of
from tfdml.registry import register

# What tells the stream of classes from the streams of rows, whose keys are class numbers from 0.
CLASS_STREAM = -1


@register("sampler", "pxk")
class PxK:
    """Batches of `classes` different classes with `per_class` images each.

    Every class comes once before any comes twice, and so do the images of a class, across batches and epochs. A
    class with fewer images than `per_class` repeats them evenly; one with a single image is left out.

    Args:
        classes: classes in a batch.
        per_class: images of each, 2 or more.
    """

    def __init__(self, classes=32, per_class=4):
        if classes < 1 or per_class < 2:
            raise ValueError(f"pxk needs classes >= 1 and per_class >= 2, received {classes} and {per_class}.")
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


@register("sampler", "uniform")
class Uniform:
    """Batches of `batch_size` different rows, each row once before any comes twice.

    Args:
        batch_size: rows in a batch.
    """

    def __init__(self, batch_size=128):
        if batch_size < 1:
            raise ValueError(f"uniform needs batch_size >= 1, received {batch_size}.")
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

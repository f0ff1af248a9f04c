"""Batches from one cluster each, for methods that divide the data among learners."""

import numpy as np
import tensorflow as tf

from pipelines.sampling.draws import draw, fill, times_drawn
from pipelines.sampling.index_shuffle import key_of
from pipelines.sampling.pxk import PxK
from pipelines.sampling.streams import Stream, as_long_as, stream_keys
from pipelines.sampling.uniform import Uniform

# The learner of batches while all rows are one cluster.
EVERYTHING = -1


class WithinClusters:
    """Draws every batch of a sampler from one cluster of the rows; the number of the cluster is the batch's learner.

    Until `assign` is called all rows are one cluster, the batches are those of the sampler, and their learner is -1.

    Within a cluster all classes (rows, for `Uniform`) come once before any comes twice. A cluster with fewer classes,
    or rows, than a batch needs repeats some of them, a class with other rows.

    Args:
        sampler: `PxK` or `Uniform`, which composes the batches.
        proportional: draw batches from each cluster in proportion to its rows. Default: equally many from each, as in
            Algorithm 1 of Divide and Conquer.
        shuffle: whether clusters take turns in a random order, or else in a fixed one.
    """

    def __init__(self, sampler, *, proportional=False, shuffle=True):
        if not isinstance(sampler, (PxK, Uniform)):
            raise ValueError(f"Batches of one cluster are drawn by pxk or uniform, not by {type(sampler).__name__}.")
        self.sampler = sampler
        self.proportional, self.shuffle = proportional, shuffle
        self.batch_size = sampler.batch_size
        self.by_class = isinstance(sampler, PxK)

    def bind(self, labels):
        """Creates the tables for rows with these labels `[N]`, all in one cluster; the sampler's own are not needed."""
        self._labels = np.asarray(labels)
        empty = np.zeros(0, np.int64)
        self._tables = [tf.Variable(empty, trainable=False, shape=[None]) for _ in range(7)]
        self.assign(None)

    def assign(self, assignment, turns=True, learners=None):
        """Replaces the clusters; the next pass over the dataset draws from the new ones.

        Args:
            assignment: `[N]` learner of each row, or None: all rows are one cluster.
            turns: whether learners take turns; if not, batches come from the clusters, but their learner is -1.
            learners: number of learners. Default: one more than the highest in `assignment`.

        Returns:
            Dictionary of irregular rows and learners: `left_out`, number of rows alone in their class inside their
            cluster; `small`, learners whose cluster has fewer classes, or rows, than a batch needs; `idle`, learners
            without a batch.
        """
        whole = assignment is None
        assignment = np.full(len(self._labels), EVERYTHING) if whole else np.asarray(assignment)
        if assignment.shape != self._labels.shape:
            raise ValueError(f"Expected a learner for each of {len(self._labels)} rows, received {assignment.shape}.")
        rows, starts, sizes, learner_of_group = _groups(assignment, self._labels if self.by_class else assignment)
        usable = sizes > 1 if self.by_class else sizes > 0
        starts, counts, learner_of_group = starts[usable], sizes[usable], learner_of_group[usable]
        everyone = np.arange(assignment.max() + 1 if learners is None else learners)
        learners, first, groups = np.unique(learner_of_group, return_index=True, return_counts=True)
        if not len(learners):
            raise ValueError("No cluster holds two images of a class, so there is no batch to draw.")
        members, needed = (groups, self.sampler.classes) if self.by_class else (counts, self.batch_size)
        if whole and members[0] < needed:
            what = "classes of two images or more" if self.by_class else "training rows"
            raise ValueError(f"A batch needs {needed} {what}; there are {members[0]}.")
        slots = _batches_in(counts, first, self.batch_size) if self.proportional else np.ones(len(learners))
        turn = learners if turns else np.full_like(learners, EVERYTHING)
        tables = rows, starts, counts, first, np.cumsum(slots), learners, turn
        for variable, table in zip(self._tables, tables, strict=True):
            variable.assign(table.astype(np.int64))
        return {
            "left_out": int(np.sum(sizes[~usable])),
            "small": [] if whole else learners[members < needed].tolist(),
            "idle": [] if whole else np.setdiff1d(everyone, learners).tolist(),
        }

    def tables(self):
        return [table.read_value() for table in self._tables]

    def learners(self, seed, steps, tables=None):
        """Returns the learner `[n]` of each step."""
        tables = self.tables() if tables is None else tables
        cluster, _ = self._cluster_of(tf.cast(seed, tf.int64), tf.cast(steps, tf.int64), tables)
        return tf.gather(tables[6], cluster)

    def rows(self, seed, steps, tables=None):
        """Returns row numbers `[n, batch_size]` of the batches of `steps` `[n]`."""
        tables = self.tables() if tables is None else tables
        seed, steps = tf.cast(seed, tf.int64), tf.cast(steps, tf.int64)
        by_group, starts, sizes, first, _, learners, _ = tables
        cluster, number = self._cluster_of(seed, steps, tables)
        learner = tf.gather(learners, cluster)
        keys = stream_keys(seed, steps)
        keys = tf.where(learner == EVERYTHING, keys, key_of(keys, learner))
        start = tf.gather(first, cluster)
        if not self.by_class:
            member = fill(keys, number, tf.gather(sizes, start), self.batch_size)
            return tf.gather(by_group, tf.gather(starts, start)[:, None] + member)
        ends = tf.concat([first[1:], [tf.size(starts, out_type=tf.int64)]], axis=0)
        chosen, times = self._classes_of(keys, number, tf.gather(ends, cluster) - start)
        group = tf.reshape(start[:, None] + chosen, [-1])
        member = fill(key_of(seed, group), tf.reshape(times, [-1]), tf.gather(sizes, group), self.sampler.per_class)
        rows = tf.gather(by_group, tf.gather(starts, group)[:, None] + member)
        return tf.reshape(rows, [-1, self.batch_size])

    def _cluster_of(self, seed, steps, tables):
        """Returns the cluster of each step and the number of its earlier batches, both `[n]`."""
        ends = tables[4]
        total = ends[-1]
        place = steps % total
        if self.shuffle:
            key = stream_keys(seed, steps, Stream.CLUSTERS)
            place = draw(key, steps, *as_long_as(steps, total, tf.constant(1, tf.int64)), 1)[:, 0]
        cluster = tf.searchsorted(ends, place, side="right", out_type=tf.int64)
        slots = tf.gather(ends - tf.concat([[0], ends[:-1]], axis=0), cluster)
        return cluster, steps // total * slots + place - (tf.gather(ends, cluster) - slots)

    def _classes_of(self, keys, number, size):
        """Returns the classes of the clusters' batches and how often each came before, both `[n, classes]`."""
        wanted = self.sampler.classes
        chosen = fill(keys, number, size, wanted)
        place = tf.range(wanted, dtype=tf.int64)[None, :]
        # In a small cluster: numbers that are unique over all batches and places of the class.
        often = (wanted // size + 1)[:, None] * number[:, None] + place // size[:, None]
        count = tf.where(size < wanted, tf.ones_like(size), wanted)
        exact = times_drawn(keys, number, size, tf.minimum(count, size), chosen, wanted)
        return chosen, tf.where((size < wanted)[:, None], often, exact)


def _groups(assignment, labels):
    """Sorts rows by cluster and class, and returns `(rows [N], first place, size and cluster of each group)`."""
    rows = np.lexsort((labels, assignment))
    cluster, label = assignment[rows], labels[rows]
    begins = np.flatnonzero(np.r_[True, (cluster[1:] != cluster[:-1]) | (label[1:] != label[:-1])])
    return rows, begins, np.diff(np.r_[begins, len(rows)]), cluster[begins]


def _batches_in(sizes, first, batch_size):
    """Returns the number of batches that the rows of each cluster fill, 1 or more."""
    return np.maximum(np.round(np.add.reduceat(sizes, first) / batch_size), 1)

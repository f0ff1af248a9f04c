"""Batches out of one cluster each, for methods that divide the data among learners."""

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
    """Draws every batch of a sampler out of one cluster of the rows, whose number is the batch's learner.

    Until `assign` is called all rows are one cluster, the batches are those of the sampler, and their learner is -1.

    Within a cluster all come once before one comes twice. Of a cluster with fewer classes (for `uniform` batches:
    rows) than a batch needs, batches hold some of them repeatedly, a class with further rows.

    Args:
        sampler: `PxK` or `Uniform`, which says what a batch is made of.
        proportional: give each cluster as many batches as its rows fill; False: all give as many, as in Algorithm 1 of
            Divide and Conquer.
        shuffle: take clusters in a random order; False: in turn.
    """

    def __init__(self, sampler, *, proportional=False, shuffle=True):
        if not isinstance(sampler, (PxK, Uniform)):
            raise ValueError(f"Batches of one cluster are drawn by pxk or uniform, not by {type(sampler).__name__}.")
        self.sampler = sampler
        self.proportional, self.shuffle = proportional, shuffle
        self.batch_size = sampler.batch_size
        self.by_class = isinstance(sampler, PxK)

    def bind(self, labels):
        """Makes the tables for rows with these labels `[N]`, all in one cluster."""
        self.sampler.bind(labels)
        self._labels = np.asarray(labels)
        empty = np.zeros(0, np.int64)
        self._tables = [tf.Variable(empty, trainable=False, shape=[None]) for _ in range(7)]
        self.assign(None)

    def assign(self, assignment, turns=True, learners=None):
        """Replaces the clusters; the next pass over the dataset draws from the new ones.

        Args:
            assignment: `[N]` learner of each row, or None: all rows are one cluster.
            turns: False: batches come from the clusters, but their learner is -1.
            learners: how many there are; None: as many as the highest number says.

        Returns:
            Dictionary of what cannot be drawn as usual: `left_out`, rows alone in their class inside their cluster;
            `small`, learners whose cluster has fewer classes, or rows, than a batch needs; `idle`, learners with no
            batch at all.
        """
        whole = assignment is None
        assignment = np.full(len(self._labels), EVERYTHING) if whole else np.asarray(assignment)
        if assignment.shape != self._labels.shape:
            raise ValueError(f"Expected a learner for each of {len(self._labels)} rows, received {assignment.shape}.")
        rows, starts, sizes, learner_of_group = _groups(assignment, self._labels if self.by_class else assignment)
        usable = sizes > 1 if self.by_class else sizes > 0
        starts, kept, learner_of_group = starts[usable], sizes[usable], learner_of_group[usable]
        everyone = np.arange(assignment.max() + 1 if learners is None else learners)
        learners, first, groups = np.unique(learner_of_group, return_index=True, return_counts=True)
        if not len(learners):
            raise ValueError("No cluster holds two images of a class, so there is no batch to draw.")
        members = groups if self.by_class else kept
        slots = _batches_in(kept, first, self.batch_size) if self.proportional else np.ones(len(learners))
        tables = rows, starts, kept, first, np.cumsum(slots), learners, learners if turns else 0 * learners + EVERYTHING
        for variable, table in zip(self._tables, tables, strict=True):
            variable.assign(table.astype(np.int64))
        needed = self.sampler.classes if self.by_class else self.batch_size
        return {
            "left_out": int(np.sum(sizes[~usable])),
            "small": [] if whole else learners[members < needed].tolist(),
            "idle": [] if whole else np.setdiff1d(everyone, learners).tolist(),
        }

    def tables(self):
        return [table.read_value() for table in self._tables]

    def learners(self, seed, steps, tables=None):
        """The learner `[n]` of each step."""
        tables = self.tables() if tables is None else tables
        cluster, _ = self._cluster_of(tf.cast(seed, tf.int64), tf.cast(steps, tf.int64), tables)
        return tf.gather(tables[6], cluster)

    def rows(self, seed, steps, tables=None):
        """Row numbers `[n, batch_size]` of the batches of `steps` `[n]`."""
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
        """The cluster of each step and how many batches it gave before, both `[n]`."""
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
        """Classes of the clusters' batches and how often each was drawn before, both `[n, classes]`."""
        wanted = self.sampler.classes
        chosen = fill(keys, number, size, wanted)
        place = tf.range(wanted, dtype=tf.int64)[None, :]
        # Of a small cluster: numbers that no other batch, nor other place of this one, has for the class.
        often = (wanted // size + 1)[:, None] * number[:, None] + place // size[:, None]
        count = tf.where(size < wanted, tf.ones_like(size), wanted)
        exact = times_drawn(keys, number, size, tf.minimum(count, size), chosen, wanted)
        return chosen, tf.where((size < wanted)[:, None], often, exact)


def _groups(assignment, labels):
    """Rows sorted by cluster and class: `(rows [N], first place, size and cluster of each group)`."""
    rows = np.lexsort((labels, assignment))
    cluster, label = assignment[rows], labels[rows]
    begins = np.flatnonzero(np.r_[True, (cluster[1:] != cluster[:-1]) | (label[1:] != label[:-1])])
    return rows, begins, np.diff(np.r_[begins, len(rows)]), cluster[begins]


def _batches_in(sizes, first, batch_size):
    """How many batches the rows of each cluster fill, 1 or more."""
    return np.maximum(np.round(np.add.reduceat(sizes, first) / batch_size), 1)

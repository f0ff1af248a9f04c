"""Batches from one cluster of the rows that repeat some where a cluster is small."""

import numpy as np
import tensorflow as tf

from pipelines.sampling.draws import fill, times_drawn
from pipelines.sampling.index_shuffle import key_of
from pipelines.sampling.streams import EVERYTHING, stream_keys


class ClusterGroups:
    """Draws groups of a cluster, each once before any comes twice, and so their rows. All steps are computed at once.

    Groups are the classes of a cluster, or else the whole cluster is one group. A cluster with fewer classes, or rows,
    than a batch needs repeats some of them, a class with other rows. Its arguments and results are those of
    `ClusterTables`.

    Args:
        classes: classes in a batch; None: a batch is drawn from all rows of the cluster.
        per_group: rows of each class, or of the batch.
    """

    def __init__(self, classes, per_group):
        self.classes, self.per_group = classes, per_group
        self.batch_size = (classes or 1) * per_group

    def divide(self, assignment, labels):
        """Makes the tables of all clusters; see `ClusterTables.divide`. `small` is learners whose batches repeat."""
        rows, starts, sizes, learner_of_group = _groups(assignment, labels if self.classes else assignment)
        usable = sizes > 1 if self.classes else sizes > 0
        starts, counts = starts[usable], sizes[usable]
        learners, first, groups = np.unique(learner_of_group[usable], return_index=True, return_counts=True)
        if not len(learners):
            raise ValueError("No cluster holds two images of a class, so there is no batch to draw.")
        members, needed = (groups, self.classes) if self.classes else (counts, self.batch_size)
        small = members < needed
        if np.any(small & (learners == EVERYTHING)):
            what = "classes of two images or more" if self.classes else "training rows"
            raise ValueError(f"A batch needs {needed} {what}; there are {members[0]}.")
        irregular = {"left_out": int(np.sum(sizes[~usable])), "small": learners[small].tolist()}
        return [rows, starts, counts, first], learners, np.add.reduceat(counts, first), irregular

    def draw_rows(self, seed, steps, cluster, number, learner, *tables):
        """Returns row numbers `[n, batch_size]`; see `ClusterTables.draw_rows`."""
        by_group, starts, sizes, first = tables
        keys = stream_keys(seed, steps)
        keys = tf.where(learner == EVERYTHING, keys, key_of(keys, learner))
        start = tf.gather(first, cluster)
        if not self.classes:
            member = fill(keys, number, tf.gather(sizes, start), self.batch_size)
            return tf.gather(by_group, tf.gather(starts, start)[:, None] + member)
        ends = tf.concat([first[1:], [tf.size(starts, out_type=tf.int64)]], axis=0)
        chosen, times = self._classes_of(keys, number, tf.gather(ends, cluster) - start)
        group = tf.reshape(start[:, None] + chosen, [-1])
        member = fill(key_of(seed, group), tf.reshape(times, [-1]), tf.gather(sizes, group), self.per_group)
        rows = tf.gather(by_group, tf.gather(starts, group)[:, None] + member)
        return tf.reshape(rows, [-1, self.batch_size])

    def _classes_of(self, keys, number, size):
        """Returns the classes of the clusters' batches and how often each came before, both `[n, classes]`."""
        wanted = self.classes
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

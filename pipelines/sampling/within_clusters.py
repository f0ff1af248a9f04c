"""Batches from one cluster each, for methods that divide the data among learners."""

import numpy as np
import tensorflow as tf

from pipelines.sampling.draws import draw
from pipelines.sampling.sampler import Sampler
from pipelines.sampling.streams import EVERYTHING, Stream, as_long_as, stream_keys


class WithinClusters(Sampler):
    """Draws every batch of a sampler from one cluster of the rows; the number of the cluster is the batch's learner.

    Until `assign` is called all rows are one cluster, the batches are those of the sampler, and their learner is -1.

    A cluster is drawn as if its rows were all that there are. Where they do not fill a batch, `PxK` and `Uniform`
    repeat some of them, a class with other rows; of any other sampler the cluster's learner waits.

    Args:
        sampler: the sampler that composes the batches.
        proportional: draw batches from each cluster in proportion to its rows. Default: equally many from each, as in
            Algorithm 1 of Divide and Conquer.
        shuffle: whether clusters take turns in a random order, or else in a fixed one.
    """

    takes_turns = True
    not_within_clusters = "its batches are already from one cluster each"

    def __init__(self, sampler, *, proportional=False, shuffle=True):
        if sampler.not_within_clusters:
            raise ValueError(f"{type(sampler).__name__} does not work within clusters: {sampler.not_within_clusters}.")
        self.sampler = sampler
        self.proportional, self.shuffle = proportional, shuffle
        self.batch_size, self.parts = sampler.batch_size, sampler.parts
        self.several_per_class = sampler.several_per_class
        self._draws = sampler.cluster_draws()

    def bind(self, labels):
        """Creates the tables for rows with these labels `[N]`, all in one cluster; the sampler's own are not needed."""
        self._labels = np.asarray(labels)
        super().bind(labels)

    def tables_of(self, labels):
        """Returns the tables while all rows are one cluster."""
        return self._divided(np.full(len(labels), EVERYTHING), np.asarray(labels))[0]

    def assign(self, assignment, turns=True, learners=None):
        """Replaces the clusters; the next pass over the dataset draws from the new ones.

        Args:
            assignment: `[N]` learner of each row, or None: all rows are one cluster.
            turns: whether learners take turns; if not, batches come from the clusters, but their learner is -1.
            learners: number of learners. Default: one more than the highest in `assignment`.

        Returns:
            Dictionary of irregular rows and learners: `left_out`, number of rows that are never drawn: alone in their
            class inside their cluster, or in a cluster without a batch; `small`, learners whose batches repeat rows
            to be full; `idle`, learners without a batch.
        """
        whole = assignment is None
        assignment = np.full(len(self._labels), EVERYTHING) if whole else np.asarray(assignment)
        if assignment.shape != self._labels.shape:
            raise ValueError(f"Expected a learner for each of {len(self._labels)} rows, received {assignment.shape}.")
        tables, present, irregular = self._divided(assignment, self._labels, turns)
        for variable, table in zip(self._tables, tables, strict=True):
            variable.assign(table)
        everyone = np.arange(assignment.max() + 1 if learners is None else learners)
        return {**irregular, "idle": [] if whole else np.setdiff1d(everyone, present).tolist()}

    def learners(self, seed, steps, tables=None):
        """Returns the learner `[n]` of each step."""
        ends, _, turn, *_ = self.tables() if tables is None else tables
        cluster, _ = self._cluster_of(tf.cast(seed, tf.int64), tf.cast(steps, tf.int64), ends)
        return tf.gather(turn, cluster)

    def draw_rows(self, seed, steps, *tables):
        """Returns row numbers `[n, batch_size]` of the batches of `steps` `[n]`."""
        ends, learners, _, *of_draws = tables
        cluster, number = self._cluster_of(seed, steps, ends)
        return self._draws.draw_rows(seed, steps, cluster, number, tf.gather(learners, cluster), *of_draws)

    def _divided(self, assignment, labels, turns=True):
        """Returns the tables, the learners that have a batch, and what `cluster_draws` says of the others."""
        of_draws, learners, counts, irregular = self._draws.divide(assignment, labels)
        slots = np.ones(len(learners))
        if self.proportional:
            # As many as the rows fill, 1 or more.
            slots = np.maximum(np.round(counts / self.batch_size), 1)
        turn = learners if turns else np.full_like(learners, EVERYTHING)
        own = [table.astype(np.int64) for table in (np.cumsum(slots), learners, turn)]
        return [*own, *of_draws], learners, irregular

    def _cluster_of(self, seed, steps, ends):
        """Returns the cluster of each step and the number of its earlier batches, both `[n]`."""
        total = ends[-1]
        place = steps % total
        if self.shuffle:
            key = stream_keys(seed, steps, Stream.CLUSTERS)
            place = draw(key, steps, *as_long_as(steps, total, tf.constant(1, tf.int64)), 1)[:, 0]
        cluster = tf.searchsorted(ends, place, side="right", out_type=tf.int64)
        slots = tf.gather(ends - tf.concat([[0], ends[:-1]], axis=0), cluster)
        return cluster, steps // total * slots + place - (tf.gather(ends, cluster) - slots)

"""Batches from one cluster each, for methods that divide the data among learners."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pipelines.sampling.draws import draw
from pipelines.sampling.sampler import Sampler, check_embeddings
from pipelines.sampling.streams import EVERYTHING, Stream, as_long_as, stream_keys
from tfdml.registry.arguments import Labels, Tensor


class WithinClusters(Sampler):
    """Draws every batch of a sampler from one cluster of the rows; the number of the cluster is the batch's learner.

    Until `assign` is called all rows are one cluster, the batches are those of the sampler, and their learner is -1.

    With `at_once` a batch is made of as many, one of each cluster: its k-th part is from the k-th cluster, and has that
    learner. The part of a learner without a batch is from another cluster, and has the learner -1.

    A cluster is drawn as if its rows were all that there are. Where they do not fill a batch, `PxK` and `Uniform`
    repeat some of them, a class with other rows; of any other sampler the cluster's learner waits.

    Args:
        sampler: the sampler that composes the batches.
        proportional: draw batches from each cluster in proportion to its rows. Default: equally many from each, as in
            Algorithm 1 of Divide and Conquer.
        shuffle: whether clusters take turns in a random order, or else in a fixed one.
        at_once: number of learners that have their part of each batch, instead of taking turns; 1: they take turns.
    """

    takes_turns = True
    not_within_clusters = "its batches are already from one cluster each"

    def __init__(self, sampler: Sampler, *, proportional: bool = False, shuffle: bool = True, at_once: int = 1):
        if sampler.not_within_clusters:
            raise ValueError(f"{type(sampler).__name__} does not work within clusters: {sampler.not_within_clusters}.")
        if at_once > 1 and (proportional or shuffle):
            raise ValueError("at_once has a part of each cluster in each batch, in order: expected shuffle=False.")
        if at_once > 1 and sampler.parts > 1:
            raise ValueError(
                f"Batches of {type(sampler).__name__} are images and their partners, which several in one batch "
                "would part. Let learners take turns: at_once=1, or simultaneous=False of Divide and Conquer."
            )
        self.sampler = sampler
        self.proportional, self.shuffle, self.at_once = proportional, shuffle, at_once
        self.batch_size, self.parts = at_once * sampler.batch_size, sampler.parts
        self.several_per_class = sampler.several_per_class
        self.refresh_every = sampler.refresh_every
        self._draws = sampler.cluster_draws()

    def bind(self, labels):
        """Creates the tables for rows with these labels `[N]`, all in one cluster; the sampler's own are not needed."""
        self._labels = np.asarray(labels)
        self._division = np.full(len(self._labels), EVERYTHING), ()
        super().bind(labels)

    def tables_of(self, labels):
        """Returns the tables while all rows are one cluster."""
        return self._divided(np.full(len(labels), EVERYTHING), np.asarray(labels))[0]

    def assign(self, assignment: Labels | None, turns: bool = True, learners: int | None = None) -> dict[str, Any]:
        """Replaces the clusters; the next pass over the dataset draws from the new ones.

        Args:
            assignment: `[N]` learner of each row, or None: all rows are one cluster.
            turns: whether batches have learners; if not, they come from the clusters, but their learner is -1.
            learners: number of learners. Default: one more than the highest in `assignment`; without an assignment,
                batches have learners only if it is given.

        Returns:
            Dictionary of irregular rows and learners: `left_out`, number of rows that are never drawn: alone in their
            class inside their cluster, or in a cluster without a batch; `small`, learners whose batches repeat rows
            to be full; `idle`, learners without a batch.
        """
        whole = assignment is None
        assignment = np.full(len(self._labels), EVERYTHING) if whole else np.asarray(assignment)
        if assignment.shape != self._labels.shape:
            raise ValueError(f"Expected a learner for each of {len(self._labels)} rows, received {assignment.shape}.")
        everyone = np.arange(assignment.max() + 1 if learners is None else learners)
        self._division = assignment, everyone if turns else everyone[:0]
        present, irregular = self._replace_tables()
        return {**irregular, "idle": [] if whole else np.setdiff1d(everyone, present).tolist()}

    def refresh(self, embeddings, workers=None):
        """Changes the sampler's tables of every cluster; see `Sampler.refresh`."""
        check_embeddings(embeddings, self._labels)
        self._draws.refresh(embeddings, workers)
        self._replace_tables()

    def refreshed(self):
        return self._draws.refreshed() if self.refresh_every else []

    def learners(self, seed: Tensor, steps: Tensor, tables: Sequence[Tensor] | None = None) -> tf.Tensor:
        """Returns the learner `[n]` of each step; with `at_once`, that of each row, `[n, batch_size]`."""
        cluster_of, learner_of, *_ = self.tables() if tables is None else tables
        slots = self._slots_of(tf.cast(seed, tf.int64), self._parts_of(tf.cast(steps, tf.int64)), cluster_of)
        learners = tf.gather(learner_of, slots)
        if self.at_once == 1:
            return learners
        return tf.reshape(tf.repeat(learners, self.sampler.batch_size), [-1, self.batch_size])

    def draw_rows(self, seed, steps, *tables):
        """Returns row numbers `[n, batch_size]` of the batches of `steps` `[n]`."""
        cluster_of, _, nth_of, counts, keys, *of_draws = tables
        steps = self._parts_of(steps)
        slots = self._slots_of(seed, steps, cluster_of)
        cluster = tf.gather(cluster_of, slots)
        # Of the cluster's earlier batches.
        number = steps // tf.size(cluster_of, tf.int64) * tf.gather(counts, cluster) + tf.gather(nth_of, slots)
        rows = self._draws.draw_rows(seed, steps, cluster, number, tf.gather(keys, cluster), *of_draws)
        return tf.reshape(rows, [-1, self.batch_size])

    def _replace_tables(self):
        """Makes the tables anew; returns the learners that have a batch, and what is irregular, as `_divided` does."""
        assignment, learners = self._division
        tables, present, irregular = self._divided(assignment, self._labels, learners)
        for variable, table in zip(self._tables, tables, strict=True):
            variable.assign(table)
        return present, irregular

    def _divided(self, assignment, labels, learners=()):
        """Returns the tables, the learners that have a batch, and what `cluster_draws` says of the others.

        Batches go round slots. A slot has a cluster and a learner, -1 for none: all of them without `learners`.
        """
        of_draws, present, rows, irregular = self._draws.divide(assignment, labels)
        clusters = range(len(present))
        if self.at_once > 1:
            # One slot for each learner, on the cluster of another one where it has none.
            places = {learner: cluster for cluster, learner in enumerate(present.tolist())}
            cluster_of = np.array([places.get(slot, slot % len(present)) for slot in range(self.at_once)])
            having = [slot if slot in places else EVERYTHING for slot in range(self.at_once)]
        elif self.proportional:
            # As many as the rows fill, 1 or more.
            cluster_of = np.repeat(clusters, np.maximum(np.round(rows / self.batch_size), 1).astype(int))
            having = present[cluster_of]
        else:
            cluster_of, having = np.array(clusters), present
        if len(learners) and present[0] == EVERYTHING:
            # Of all rows, in turn.
            cluster_of, having = np.zeros(len(learners), int), learners
        learner_of = having if len(learners) else np.full(len(cluster_of), EVERYTHING)
        counts = np.bincount(cluster_of, minlength=len(present))
        nth_of = np.zeros(len(cluster_of))
        for cluster, count in enumerate(counts):
            nth_of[cluster_of == cluster] = np.arange(count)
        own = [np.asarray(table, np.int64) for table in (cluster_of, learner_of, nth_of, counts, present)]
        return [*own, *of_draws], present, irregular

    def _parts_of(self, steps):
        """Returns the numbers of the parts of batches, as if each part were a step."""
        return tf.reshape(steps[:, None] * self.at_once + tf.range(self.at_once, dtype=tf.int64), [-1])

    def _slots_of(self, seed, steps, cluster_of):
        """Returns the slot of each step `[n]`."""
        total = tf.size(cluster_of, tf.int64)
        if not self.shuffle:
            return steps % total
        key = stream_keys(seed, steps, Stream.CLUSTERS)
        return draw(key, steps, *as_long_as(steps, total, tf.constant(1, tf.int64)), 1)[:, 0]

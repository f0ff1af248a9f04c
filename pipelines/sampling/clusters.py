"""Batches from one cluster each, and clusters as labels."""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import tensorflow as tf

from pipelines.sampling.draws import EVERYTHING, Stream, as_long_as, draw, fill, key_of, stream_keys, times_drawn
from pipelines.sampling.sampler import ClusterTables, Sampler, check_embeddings, members_of
from tfdml.neighbors.nearest import NO_NEIGHBOR, nearest_negatives
from tfdml.registry import register
from tfdml.registry.arguments import Count, Labels, Tensor, integer
from tfdml.registry.fields import Value


class ClusterGroups:
    """Draws groups of a cluster, each once before any comes twice, and so their rows. All steps are computed at once.

    Groups are the classes of a cluster, of which a batch has `classes`, or else, with None, the whole cluster is one
    group. A batch has `per_group` rows of each. A cluster with fewer classes, or rows, than a batch needs repeats some
    of them, a class with other rows. Its arguments and results are those of `ClusterTables`.
    """

    def __init__(self, classes, per_group):
        self.classes, self.per_group = classes, per_group
        self.batch_size = (classes or 1) * per_group

    def divide(self, assignment, labels):
        """Makes the tables of all clusters; see `ClusterTables.divide`. `small` is learners whose batches repeat."""
        labels = labels if self.classes else assignment
        # Groups of rows sorted by cluster and class.
        rows = np.lexsort((labels, assignment))
        cluster, label = assignment[rows], labels[rows]
        starts = np.flatnonzero(np.r_[True, (cluster[1:] != cluster[:-1]) | (label[1:] != label[:-1])])
        sizes, learner_of_group = np.diff(np.r_[starts, len(rows)]), cluster[starts]
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


class ClusterNeighbors(ClusterTables):
    """Draws batches of `HardNeighbors` from one cluster, whose neighbors are the nearest ones there.

    One table has the neighbors of all rows, as numbers of rows. After new clusters a neighbor that is now in another
    one is missing until the next `refresh`, and a random row takes its place.
    """

    def __init__(self, sampler):
        super().__init__(sampler)
        self._found = self._assignment = self._labels = None

    def divide(self, assignment, labels):
        if self._found is None or not np.array_equal(labels, self._labels):
            self._found = tf.Variable(
                np.full((len(labels), self.sampler.neighbors), NO_NEIGHBOR, np.int32), trainable=False
            )
        self._assignment, self._labels = assignment, labels
        return super().divide(assignment, labels)

    def refresh(self, embeddings, workers=None):
        """Finds the neighbors of all rows in their clusters; `divide` then makes tables of them."""
        found = np.full(self._found.shape, NO_NEIGHBOR, np.int32)
        for members in members_of(self._assignment).values():
            places = nearest_negatives(
                embeddings[members], self._labels[members], self.sampler.neighbors, workers=workers
            )
            found[members] = np.where(places == NO_NEIGHBOR, NO_NEIGHBOR, members[places])
        self._found.assign(found)

    def refreshed(self):
        return [self._found]

    def tables_of(self, members, labels):
        *tables, _ = super().tables_of(members, labels)
        rows = self._found.numpy()[members]
        places = np.minimum(np.searchsorted(members, rows), len(members) - 1)
        return [*tables, np.where(members[places] == rows, places, NO_NEIGHBOR).astype(np.int32)]


@register("labels", "clusters")
class Clusters(Value):
    """Clusters of the embeddings of all training images, found anew while a run trains, as their classes.

    DeepCluster (Caron et al., Deep Clustering for Unsupervised Learning of Visual Features, 2018), with any loss. A
    cluster keeps the number of the one before that it overlaps most with, so that proxies of classes go on.

    Args:
        k: number of clusters.
        every: epochs from one clustering to the next; the first is before the first epoch.
        iterations: of K-means.
    """

    k: Annotated[int, integer(2)] = 100
    every: Count = 1
    iterations: Count = 20

    def fitted_to(self, labels: Labels) -> dict[str, int]:
        """Returns the arguments that fit training images: no more clusters than have two images each."""
        return {"k": max(2, min(self.k, len(labels) // 2))}

    def first(self, labels: Labels, seed: int) -> np.ndarray:
        """Returns the labels of training images, in place of theirs: random ones until the first clustering."""
        count = len(labels)
        if count < 2 * self.k:
            raise ValueError(
                f"{count} training images are too few for {self.k} clusters; expected two images or more for each."
            )
        return np.random.default_rng(seed).permutation(count) % self.k


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

    targets = "learners"
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
        total = tf.size(cluster_of, tf.int64)
        if not self.shuffle:
            return steps % total
        key = stream_keys(seed, steps, Stream.CLUSTERS)
        return draw(key, steps, *as_long_as(steps, total, tf.constant(1, tf.int64)), 1)[:, 0]

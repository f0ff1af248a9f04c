"""Batches that each come from one cluster, and clusters as labels."""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from pipelines.operations import tf
from pipelines.sampling.draws import EVERYTHING, Stream, as_long_as, draw, fill, key_of, stream_keys, times_drawn
from pipelines.sampling.sampler import ClusterTables, Sampler, check_embeddings, members_of
from tfdml.neighbors.nearest import NO_NEIGHBOR, nearest_negatives
from tfdml.registry import register
from tfdml.registry.arguments import Count, Labels, Tensor, integer
from tfdml.registry.fields import Value


class ClusterGroups:
    """Draws groups of a cluster, each once before any is drawn twice, and their rows. Computes all steps at once.

    Groups are the classes of a cluster. A batch has `classes` of them with `per_group` rows each. If `classes` is None,
    the whole cluster is one group. A cluster with fewer classes or rows than a batch needs repeats some of them; a
    repeated class has other rows. See `ClusterTables` for arguments and results.
    """

    def __init__(self, classes, per_group):
        self.classes, self.per_group = classes, per_group
        self.batch_size = (classes or 1) * per_group

    def divide(self, assignment, labels):
        """Creates the tables of all clusters; see `ClusterTables.divide`. `small` lists learners with repeated rows."""
        labels = labels if self.classes else assignment
        # Sorting rows by cluster and class puts each group into consecutive rows.
        rows = np.lexsort((labels, assignment))
        cluster, label = assignment[rows], labels[rows]
        starts = np.flatnonzero(np.r_[True, (cluster[1:] != cluster[:-1]) | (label[1:] != label[:-1])])
        sizes, learner_of_group = np.diff(np.r_[starts, len(rows)]), cluster[starts]
        usable = sizes > 1 if self.classes else sizes > 0
        starts, counts = starts[usable], sizes[usable]
        learners, first, groups = np.unique(learner_of_group[usable], return_index=True, return_counts=True)
        if not len(learners):
            raise ValueError("No cluster contains two images of a class, so no batch can be drawn. Use fewer clusters.")
        members, needed = (groups, self.classes) if self.classes else (counts, self.batch_size)
        small = members < needed
        if np.any(small & (learners == EVERYTHING)):
            what = "classes with at least two images" if self.classes else "training images"
            raise ValueError(f"A batch needs {needed} {what}. Received: {members[0]}.")
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
        """Returns the classes of the clusters' batches and how often each was drawn before, both `[n, classes]`."""
        wanted = self.classes
        chosen = fill(keys, number, size, wanted)
        place = tf.range(wanted, dtype=tf.int64)[None, :]
        # In a small cluster, these numbers are unique over all batches and positions of the class.
        often = (wanted // size + 1)[:, None] * number[:, None] + place // size[:, None]
        count = tf.where(size < wanted, tf.ones_like(size), wanted)
        exact = times_drawn(keys, number, size, tf.minimum(count, size), chosen, wanted)
        return chosen, tf.where((size < wanted)[:, None], often, exact)


class ClusterNeighbors(ClusterTables):
    """Draws batches of `HardNeighbors` from one cluster, with the nearest neighbors inside the cluster.

    One table contains the neighbors of all rows, as row numbers. After a new clustering, a neighbor that is now in
    another cluster is missing until the next `refresh`, and a random row replaces it.
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
        """Finds the neighbors of all rows in their clusters, from which `divide` then creates tables."""
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
    """Labels from clusters of the training images' embeddings, which are clustered again during training.

    Use it for images without labels. This is DeepCluster (Caron et al., Deep Clustering for Unsupervised Learning of
    Visual Features, 2018) with any loss. A cluster keeps the label of the earlier cluster with the largest overlap, so
    that proxies of classes remain valid.

    Args:
        k: Integer of at least 2. Number of clusters. Defaults to `100`.
        every: Integer. Number of epochs between clusterings. The first is before the first epoch. Defaults to `1`.
        iterations: Integer. Number of iterations of k-means. Defaults to `20`.

    Example:

    ```python
    from pipelines.sampling import Clusters

    Clusters(k=100).fitted_to(np.zeros(30))  # {'k': 15}
    ```
    """

    k: Annotated[int, integer(2)] = 100
    every: Count = 1
    iterations: Count = 20

    def fitted_to(self, labels: Labels) -> dict[str, int]:
        """Returns arguments that fit the training images: at most one cluster per two images."""
        return {"k": max(2, min(self.k, len(labels) // 2))}

    def first(self, labels: Labels, seed: int) -> np.ndarray:
        """Returns random labels for the training images until the first clustering."""
        count = len(labels)
        if count < 2 * self.k:
            raise ValueError(
                f"clusters(k={self.k}) needs at least two images per cluster. Received: {count} training images. "
                "Lower k."
            )
        return np.random.default_rng(seed).permutation(count) % self.k


class WithinClusters(Sampler):
    """Draws each batch of another sampler from a single cluster of the images, for Divide and Conquer.

    The index of the cluster is the learner of the batch. Until `assign` is called, all rows form one cluster, so the
    other sampler draws from all rows, and the learner is -1.

    With `at_once`, a batch is the concatenation of that many batches, one from each cluster: the k-th part is from the
    k-th cluster and has the learner k. If a learner has no batch, its part is from another cluster and has the learner
    -1.

    A cluster is drawn as if its rows were the whole dataset. If they do not fill a batch, `PxK` and `Uniform` repeat
    some of them; a repeated class has other rows. With any other sampler, the cluster's learner waits.

    Args:
        sampler: `Sampler` that composes the batches.
        proportional: Boolean. Whether to draw batches from each cluster in proportion to its number of rows. If
            `False`, each cluster has the same number of batches, as in Algorithm 1 of Divide and Conquer. Defaults to
            `False`.
        shuffle: Boolean. Whether clusters take turns in a random order and not in a fixed one. Defaults to `True`.
        at_once: Integer. Number of learners with a part in each batch. If 1, learners take turns. Otherwise, set
            `shuffle=False`. Defaults to `1`.

    Raises:
        ValueError: If the sampler does not work within clusters, or if `at_once` contradicts other arguments.

    Example:

    ```python
    from pipelines.sampling import Uniform, WithinClusters

    sampler = WithinClusters(Uniform(batch_size=2))
    sampler.bind(np.arange(8))
    sampler.assign(np.array([0, 0, 0, 0, 1, 1, 1, 1]))["idle"]  # []
    rows = sampler.rows(seed=0, steps=[0, 1]).numpy() // 4  # each batch is from one cluster
    np.array_equal(rows[:, 0], sampler.learners(seed=0, steps=[0, 1]))  # True
    ```
    """

    targets = "learners"
    not_within_clusters = "its batches are already from one cluster each"

    def __init__(self, sampler: Sampler, *, proportional: bool = False, shuffle: bool = True, at_once: int = 1):
        if sampler.not_within_clusters:
            raise ValueError(
                f"The sampler {type(sampler).__name__} does not work within clusters, because "
                f"{sampler.not_within_clusters}."
            )
        if at_once > 1 and (proportional or shuffle):
            raise ValueError(
                f"at_once={at_once} puts a part of each cluster into each batch, in a fixed order. Set shuffle=False "
                "and proportional=False."
            )
        if at_once > 1 and sampler.parts > 1:
            raise ValueError(
                f"Batches of {type(sampler).__name__} are images followed by their partners, which cannot be "
                "concatenated. Let learners take turns: at_once=1, or simultaneous=False of Divide and Conquer."
            )
        self.sampler = sampler
        self.proportional, self.shuffle, self.at_once = proportional, shuffle, at_once
        self.batch_size, self.parts = at_once * sampler.batch_size, sampler.parts
        self.several_per_class = sampler.several_per_class
        self.refresh_every = sampler.refresh_every
        self._draws = sampler.cluster_draws()

    def bind(self, labels):
        """Creates the tables for rows with these labels `[N]` in one cluster. The other sampler needs no `bind`."""
        self._labels = np.asarray(labels)
        self._division = np.full(len(self._labels), EVERYTHING), ()
        super().bind(labels)

    def tables_of(self, labels):
        """Returns the tables for all rows in one cluster."""
        return self._divided(np.full(len(labels), EVERYTHING), np.asarray(labels))[0]

    def assign(self, assignment: Labels | None, turns: bool = True, learners: int | None = None) -> dict[str, Any]:
        """Replaces the clusters. The next pass over the dataset draws from the new ones.

        Args:
            assignment: `[N]` integers, the learner of each row, or `None`. If `None`, all rows form one cluster.
            turns: Boolean. Whether batches have learners. If `False`, batches come from the clusters, but their learner
                is -1. Defaults to `True`.
            learners: Integer or `None`. Number of learners. If `None`, it is one more than the highest in `assignment`,
                and without an assignment batches have no learners. Defaults to `None`.

        Returns:
            Dictionary of irregular rows and learners:
            - `left_out`: number of rows that are never drawn, because they are alone in their class inside their
              cluster or in a cluster without a batch.
            - `small`: learners with batches that repeat rows.
            - `idle`: learners without a batch.
        """
        whole = assignment is None
        assignment = np.full(len(self._labels), EVERYTHING) if whole else np.asarray(assignment)
        if assignment.shape != self._labels.shape:
            raise ValueError(
                f"Expected a learner for each of {len(self._labels)} rows in assignment. Received: shape "
                f"{assignment.shape}."
            )
        everyone = np.arange(assignment.max() + 1 if learners is None else learners)
        self._division = assignment, everyone if turns else everyone[:0]
        present, irregular = self._replace_tables()
        return {**irregular, "idle": [] if whole else np.setdiff1d(everyone, present).tolist()}

    def refresh(self, embeddings, workers=None):
        """Updates the sampler's tables of every cluster; see `Sampler.refresh`."""
        check_embeddings(embeddings, self._labels)
        self._draws.refresh(embeddings, workers)
        self._replace_tables()

    def refreshed(self):
        return self._draws.refreshed() if self.refresh_every else []

    def learners(self, seed: Tensor, steps: Tensor, tables: Sequence[Tensor] | None = None) -> tf.Tensor:
        """Returns the learner `[n]` of each step or, with `at_once`, of each row, `[n, batch_size]`."""
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
        # The number of the cluster's earlier batches.
        number = steps // tf.size(cluster_of, tf.int64) * tf.gather(counts, cluster) + tf.gather(nth_of, slots)
        rows = self._draws.draw_rows(seed, steps, cluster, number, tf.gather(keys, cluster), *of_draws)
        return tf.reshape(rows, [-1, self.batch_size])

    def _replace_tables(self):
        """Replaces the tables; returns the learners with a batch and the irregular rows, like `_divided`."""
        assignment, learners = self._division
        tables, present, irregular = self._divided(assignment, self._labels, learners)
        for variable, table in zip(self._tables, tables, strict=True):
            variable.assign(table)
        return present, irregular

    def _divided(self, assignment, labels, learners=()):
        """Returns the tables, the learners with a batch, and the irregular rows and learners of `cluster_draws`.

        Batches cycle through slots. A slot has a cluster and a learner. Without `learners`, all learners are -1.
        """
        of_draws, present, rows, irregular = self._draws.divide(assignment, labels)
        clusters = range(len(present))
        if self.at_once > 1:
            # Each learner has a slot, which uses the cluster of another learner if it has none.
            places = {learner: cluster for cluster, learner in enumerate(present.tolist())}
            cluster_of = np.array([places.get(slot, slot % len(present)) for slot in range(self.at_once)])
            having = [slot if slot in places else EVERYTHING for slot in range(self.at_once)]
        elif self.proportional:
            # A cluster has as many slots as its rows fill batches, at least 1.
            cluster_of = np.repeat(clusters, np.maximum(np.round(rows / self.batch_size), 1).astype(int))
            having = present[cluster_of]
        else:
            cluster_of, having = np.array(clusters), present
        if len(learners) and present[0] == EVERYTHING:
            # All learners take turns on all rows.
            cluster_of, having = np.zeros(len(learners), int), learners
        learner_of = having if len(learners) else np.full(len(cluster_of), EVERYTHING)
        counts = np.bincount(cluster_of, minlength=len(present))
        nth_of = np.zeros(len(cluster_of))
        for cluster, count in enumerate(counts):
            nth_of[cluster_of == cluster] = np.arange(count)
        own = [np.asarray(table, np.int64) for table in (cluster_of, learner_of, nth_of, counts, present)]
        return [*own, *of_draws], present, irregular

    def _parts_of(self, steps):
        """Returns the numbers of the parts of batches, counted as if each part were a step."""
        return tf.reshape(steps[:, None] * self.at_once + tf.range(self.at_once, dtype=tf.int64), [-1])

    def _slots_of(self, seed, steps, cluster_of):
        total = tf.size(cluster_of, tf.int64)
        if not self.shuffle:
            return steps % total
        key = stream_keys(seed, steps, Stream.CLUSTERS)
        return draw(key, steps, *as_long_as(steps, total, tf.constant(1, tf.int64)), 1)[:, 0]

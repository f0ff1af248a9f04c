"""Batches of any sampler from one cluster of the rows."""

import numpy as np
import tensorflow as tf

from pipelines.sampling.streams import EVERYTHING, Stream, stream_key


class ClusterTables:
    """Draws batches from one cluster by a sampler's own arithmetic, with tables made for the rows of that cluster.

    Batches of a cluster are numbered from 0 and have a seed of its learner. So the cluster's rows are drawn as if they
    were a dataset of their own.

    Args:
        sampler: any `Sampler`.
    """

    def __init__(self, sampler):
        self.sampler = sampler

    def divide(self, assignment, labels):
        """Makes the tables of all clusters.

        Args:
            assignment: `[N]` learner of each row.
            labels: `[N]` class numbers.

        Returns:
            `(tables, learners, counts, irregular)`: int64 arrays for `draw_rows`, the learner of each cluster that
            fills a batch, the number of its rows, and `{"left_out": rows that are never drawn, "small": []}`.
        """
        made, errors = {}, {}
        for learner, members in members_of(assignment).items():
            try:
                made[learner] = members, self.tables_of(members, labels)
            except ValueError as error:
                if learner == EVERYTHING:
                    raise
                errors[len(members)] = error
        if not made:
            largest = max(errors)
            raise ValueError(
                f"No cluster fills a batch. The largest one has {largest} rows: {errors[largest]} Or use fewer "
                "learners."
            ) from errors[largest]
        rows, tables = zip(*made.values(), strict=True)
        counts = np.array([len(members) for members in rows])
        packed = [part for of_clusters in zip(*tables, strict=True) for part in _packed(of_clusters)]
        drawn = sum(self.sampler.drawn(labels[members]) for members in rows)
        tables = [np.concatenate(rows), np.cumsum(counts) - counts, *packed]
        return tables, np.array(list(made)), counts, {"left_out": len(assignment) - drawn, "small": []}

    def tables_of(self, members, labels):
        """Returns the sampler's tables for the rows of a cluster, numbered from 0.

        Args:
            members: the rows, ascending.
            labels: `[N]` class numbers of all rows.
        """
        return [np.asarray(table) for table in self.sampler.tables_of(labels[members])]

    def draw_rows(self, seed, steps, cluster, number, learner, *tables):
        """Returns row numbers `[n, batch_size]`.

        Args:
            seed: int64 scalar.
            steps: `[n]` int64.
            cluster: `[n]` cluster of each step, its place in what `divide` returned.
            number: `[n]` number of the cluster's earlier batches.
            learner: `[n]` learner of each step; -1 while all rows are one cluster.
            *tables: those of `divide`.
        """
        rows, starts, *packed = tables
        own = tf.bitcast(stream_key(seed, Stream.LEARNERS, learner), tf.int64)
        seeds = tf.where(learner == EVERYTHING, seed, own)

        def of_step(about):
            cluster, number, seed = about
            parts = zip(packed[::3], packed[1::3], packed[2::3], strict=True)
            own = [_unpacked(*table, cluster) for table in parts]
            places = self.sampler.rows(seed, number[None], own)[0]
            return starts[cluster] + tf.cast(places, tf.int64)

        places = tf.map_fn(
            of_step, (cluster, number, seeds), fn_output_signature=tf.TensorSpec([self.sampler.batch_size], tf.int64)
        )
        return tf.gather(rows, places)


def members_of(assignment):
    """Returns `{learner: its rows, ascending}`, sorted by learner."""
    rows = np.argsort(assignment, kind="stable")
    learners, starts = np.unique(assignment[rows], return_index=True)
    return dict(zip(learners.tolist(), np.split(rows, starts[1:]), strict=True))


def _packed(of_clusters):
    """Returns one table of all clusters, which differs in shape: its values, where each ends, and each shape."""
    values = np.concatenate([table.ravel() for table in of_clusters])
    ends = np.cumsum([table.size for table in of_clusters])
    return values, ends, np.array([table.shape for table in of_clusters], np.int64)


def _unpacked(values, ends, shapes, cluster):
    shape = shapes[cluster]
    return tf.reshape(values[ends[cluster] - tf.reduce_prod(shape) : ends[cluster]], shape)

"""Batches of hard neighbors from one cluster of the rows."""

import numpy as np
import tensorflow as tf

from pipelines.sampling.cluster_tables import ClusterTables, members_of
from tfdml.neighbors.nearest import NO_NEIGHBOR, nearest_negatives


class ClusterNeighbors(ClusterTables):
    """Draws batches of `HardNeighbors` from one cluster, whose neighbors are the nearest ones there.

    One table has the neighbors of all rows, as numbers of rows. After new clusters a neighbor that is now in another
    one is missing until the next `refresh`, and a random row takes its place.

    Args:
        sampler: `HardNeighbors`.
    """

    def __init__(self, sampler):
        super().__init__(sampler)
        self._found = self._assignment = self._labels = None

    def divide(self, assignment, labels):
        """Makes the tables of all clusters; see `ClusterTables.divide`."""
        if self._found is None or not np.array_equal(labels, self._labels):
            self._found = tf.Variable(
                np.full((len(labels), self.sampler.neighbors), NO_NEIGHBOR, np.int32), trainable=False
            )
        self._assignment, self._labels = assignment, labels
        return super().divide(assignment, labels)

    def refresh(self, embeddings, workers=None):
        """Finds the neighbors of all rows in their clusters; `divide` then makes tables of them.

        Args:
            embeddings: `[N, d]` array.
            workers: the `Workers` that search together; None: this process alone.
        """
        found = np.full(self._found.shape, NO_NEIGHBOR, np.int32)
        for members in members_of(self._assignment).values():
            places = nearest_negatives(
                embeddings[members], self._labels[members], self.sampler.neighbors, workers=workers
            )
            found[members] = np.where(places == NO_NEIGHBOR, NO_NEIGHBOR, members[places])
        self._found.assign(found)

    def refreshed(self):
        """Returns what `refresh` changes; see `Sampler.refreshed`."""
        return [self._found]

    def tables_of(self, members, labels):
        *tables, _ = super().tables_of(members, labels)
        rows = self._found.numpy()[members]
        places = np.minimum(np.searchsorted(members, rows), len(members) - 1)
        return [*tables, np.where(members[places] == rows, places, NO_NEIGHBOR).astype(np.int32)]

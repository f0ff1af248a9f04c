"""Lloyd's algorithm, which compares points only with the centroids that have moved."""

import numpy as np

from tfdml.neighbors.faiss_library import load_faiss

# Points whose sum is computed at once, so that memory-mapped ones stay on disk.
ROWS = 8192
# Fewer centroids mostly move all at once; the second nearest is then not worth its time.
FEW = 256


class Lloyd:
    """K-means, step by step: the clusters are those of comparing all points with all centroids in each step.

    Most centroids soon stay where they are, and so do their distances. Of each point, `_others` is a distance that none
    of the centroids that stay is nearer than, but for the point's own. So only the centroids that have moved are
    compared, and all of them only for points whose own has moved farther away than that.

    Args:
        points: `[N, d]` float32 array, contiguous.
        centroids: `[K, d]` float32 array, where centroids are at first; it is changed.
    """

    def __init__(self, points, centroids):
        self.points, self.centroids = points, centroids
        self.assignment = np.full(len(points), -1)
        #: Squared, of each point to its centroid.
        self.distances = np.full(len(points), np.inf, np.float32)
        self._others = np.full(len(points), np.inf, np.float32)
        self._moved = np.arange(len(centroids))
        # Of the points of each cluster, as they were when the centroids were computed.
        self._sums, self._sizes = np.zeros(centroids.shape), np.zeros(len(centroids), np.int64)
        self._before = self.assignment

    def assign(self):
        """Assigns each point to its nearest centroid; returns whether any cluster has changed."""
        if len(self._moved) == len(self.centroids):
            self._others[:] = np.inf
        first, second, found = self._nearest(self.points, self.centroids[self._moved])
        moves = np.isin(self.assignment, self._moved) | (self.assignment < 0)
        own = np.where(moves, np.inf, self.distances)
        stays = own <= first
        nearest = np.where(stays, self.assignment, self._moved[found])
        distances = np.where(stays, own, first)
        others = np.minimum(self._others, np.where(stays, first, np.minimum(own, second)))
        unsure = np.flatnonzero(distances > self._others)
        if len(unsure):
            distances[unsure], others[unsure], nearest[unsure] = self._nearest(self.points[unsure], self.centroids)
        self._before, self.assignment, self.distances, self._others = self.assignment, nearest, distances, others
        return not np.array_equal(self._before, nearest)

    def move(self):
        """Moves centroids to the means of their points, and those without points to the points farthest from theirs."""
        changed = np.flatnonzero(self._before != self.assignment)
        for start in range(0, len(changed), ROWS):
            rows = changed[start : start + ROWS]
            self._add(rows, self.assignment[rows], 1)
            left = rows[self._before[rows] >= 0]
            self._add(left, self._before[left], -1)
        moved = np.union1d(self.assignment[changed], self._before[changed])
        filled = moved[(moved >= 0) & (self._sizes[moved] > 0)]
        self.centroids[filled] = self._sums[filled] / self._sizes[filled, None]
        empty = np.flatnonzero(self._sizes == 0)
        self.centroids[empty] = self.points[np.argsort(-self.distances, kind="stable")[: len(empty)]]
        self._moved = np.union1d(filled, empty)

    def _add(self, rows, clusters, sign):
        """Adds points to clusters, or takes them away."""
        order = np.argsort(clusters, kind="stable")
        present, starts, sizes = np.unique(clusters[order], return_index=True, return_counts=True)
        if len(present):
            self._sums[present] += sign * np.add.reduceat(self.points[rows[order]], starts, axis=0, dtype=np.float64)
            self._sizes[present] += sign * sizes

    def _nearest(self, points, centroids):
        """Returns squared distances to the nearest centroids, those that no others are nearer than, and the nearest."""
        faiss = load_faiss()
        index = faiss.IndexFlatL2(points.shape[1])
        if faiss.get_num_gpus():
            index = faiss.index_cpu_to_all_gpus(index)
        index.add(centroids)
        distances, found = index.search(points, 1 if len(self.centroids) < FEW else 2)
        return distances[:, 0], distances[:, -1], found[:, 0]

"""K-means of embeddings, and the assignment of new clusters to learners."""

import numpy as np

from tfdml.console.progress_bar import ProgressBar
from tfdml.neighbors.nearest import load_faiss

# Number of points that are summed at once, so that memory-mapped points stay on disk.
ROWS = 8192
# With fewer centroids, usually all move at once, and finding the second nearest does not pay off.
FEW = 256


class Lloyd:
    """K-means, step by step, with the same clusters as if all points were compared with all centroids in each step.

    Most centroids soon stop moving, and then their distances do not change. For each point, `_others` is a lower bound
    of the distances to centroids that do not move, except for the point's own centroid. So only centroids that have
    moved are compared. All centroids are compared only for points with a centroid that has moved farther away than this
    bound. Points and centroids are contiguous float32, and centroids are changed in place.
    """

    def __init__(self, points, centroids):
        self.points, self.centroids = points, centroids
        self.assignment = np.full(len(points), -1)
        #: Squared distance of each point to its centroid.
        self.distances = np.full(len(points), np.inf, np.float32)
        self._others = np.full(len(points), np.inf, np.float32)
        self._moved = np.arange(len(centroids))
        # Sum and number of each cluster's points when the centroids were last computed.
        self._sums, self._sizes = np.zeros(centroids.shape), np.zeros(len(centroids), np.int64)
        self._before = self.assignment

    def assign(self):
        """Assigns each point to its nearest centroid. Returns whether any cluster has changed."""
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
        """Moves centroids to the means of their points, and empty centroids to the points farthest from theirs."""
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
        order = np.argsort(clusters, kind="stable")
        present, starts, sizes = np.unique(clusters[order], return_index=True, return_counts=True)
        if len(present):
            self._sums[present] += sign * np.add.reduceat(self.points[rows[order]], starts, axis=0, dtype=np.float64)
            self._sizes[present] += sign * sizes

    def _nearest(self, points, centroids):
        """Returns squared distances to the nearest centroids, lower bounds of all others, and the nearest centroids."""
        faiss = load_faiss()
        index = faiss.IndexFlatL2(points.shape[1])
        if faiss.get_num_gpus():
            index = faiss.index_cpu_to_all_gpus(index)
        index.add(centroids)
        distances, found = index.search(points, 1 if len(self.centroids) < FEW else 2)
        return distances[:, 0], distances[:, -1], found[:, 0]


# Difference between the seeds of two restarts in faiss.
NEXT = 15_486_557
# 2^64 divided by the golden ratio: an odd factor that spreads each bit of a number over many bits of the product.
MIXING = np.uint64(0x9E3779B97F4A7C15)


def kmeans(embeddings, clusters, *, seed, iterations=50, restarts=1, at_most=False):
    """Clusters embeddings `[N, d]` by K-means.

    Returns the cluster `[N]` of each row, and the centroids `[clusters, d]`. Except for rounding, the clusters are
    those of faiss' K-means with the same seed, as long as no cluster becomes empty. All rows are used, on GPUs if there
    are any, and the same arguments give the same result. With several restarts, the one with the smallest distances is
    used. If there are fewer distinct rows than clusters, each distinct row becomes a cluster if `at_most` is True;
    otherwise an error is raised.
    """
    points = np.ascontiguousarray(embeddings, np.float32)
    if points.ndim != 2:
        raise ValueError(f"embeddings must have shape [rows, dim]. Received: shape {points.shape}.")
    check_finite(points)
    distinct = distinct_count(points)
    if distinct < clusters and not at_most:
        raise ValueError(
            f"{clusters} clusters need at least {clusters} distinct embeddings. The {len(points)} rows have only "
            f"{distinct}, because the network maps many images to the same embedding. Train longer before dividing, or "
            "use fewer learners."
        )
    clusters = min(clusters, distinct)
    bar = ProgressBar(iterations * restarts, "K-means iteration", verbose=2)
    found = []
    for restart in range(restarts):
        lloyd = Lloyd(points, points[_starts(points, clusters, seed + 1 + restart * NEXT)])
        for _ in range(iterations):
            if not lloyd.assign():
                break
            lloyd.move()
            bar.add(1)
        else:
            lloyd.assign()
        found.append((lloyd.distances.sum(dtype=np.float64), lloyd.assignment, lloyd.centroids))
    return min(found, key=lambda run: run[0])[1:]


def nearest_centroids(embeddings, centroids):
    """Returns the nearest of centroids `[clusters, d]` for each embedding `[N, d]`, `[N]`."""
    index = load_faiss().IndexFlatL2(centroids.shape[1])
    index.add(centroids)
    _, found = index.search(np.ascontiguousarray(embeddings, np.float32), 1)
    return found[:, 0]


def distinct_count(embeddings):
    """Returns the number of distinct rows of `[N, d]`, compared in float32."""
    return len(np.unique(_row_numbers(embeddings)))


def overlap(before, after, clusters):
    """Returns the intersection over union `[clusters, clusters]` of each old and each new cluster."""
    both = np.bincount(before * clusters + after, minlength=clusters**2).reshape(clusters, clusters)
    union = both.sum(axis=1, keepdims=True) + both.sum(axis=0, keepdims=True) - both
    return both / np.maximum(union, 1)


def matched(before, after, clusters):
    """Assigns new clusters to learners one to one, so that learners mostly keep the rows of their previous clusters.

    Appendix A of Divide and Conquer: the assignment with the largest sum of intersections over unions. So the learner
    of a cluster is not always the one with the previous cluster that overlaps it most. From the previous learner and
    the new cluster of each row `[N]`, in any numbering, the function returns the new learner of each row.
    """
    # Imported here because it would make `import tfdml` slow.
    from scipy.optimize import linear_sum_assignment

    learners, found = linear_sum_assignment(overlap(before, after, clusters), maximize=True)
    learner_of = np.empty(clusters, np.int64)
    learner_of[found] = learners
    return learner_of[after]


def check_finite(embeddings):
    """Raises a ValueError that names the first row `[N, d]` that is not finite."""
    blocks = (embeddings[start : start + ROWS] for start in range(0, len(embeddings), ROWS))
    finite = [np.isfinite(block).all(axis=1) for block in blocks]
    broken = np.flatnonzero(~np.concatenate(finite)) if finite else ()
    if len(broken):
        raise ValueError(f"{len(broken)} of {len(embeddings)} embeddings are not finite. The first is row {broken[0]}.")


def _starts(points, clusters, seed):
    """Returns random rows as initial centroids: the same as in faiss, but without duplicates."""
    faiss, order = load_faiss(), np.empty(len(points), np.int32)
    faiss.rand_perm(faiss.swig_ptr(order), len(order), seed)
    _, first = np.unique(_row_numbers(points)[order], return_index=True)
    return order[np.sort(first)[:clusters]]


def _row_numbers(embeddings):
    """Returns a hash `[N]` of each row.

    Equal rows have equal hashes. Two other rows have different hashes, except with a chance of 2^-64. Comparing hashes
    is much faster than comparing rows. They are computed from integers, because floating-point sums depend on where a
    row is stored in memory.
    """
    weights = np.random.default_rng(0).integers(2**64, size=embeddings.shape[1], dtype=np.uint64)
    numbers = np.empty(len(embeddings), np.uint64)
    for start in range(0, len(embeddings), ROWS):
        # Adding 0 turns -0 into 0.
        block = np.asarray(embeddings[start : start + ROWS], np.float32) + np.float32(0)
        bits = block.view(np.uint32).astype(np.uint64) * MIXING
        # Mix high bits into low bits, because the low bits of a product depend only on low bits, and not on signs.
        bits ^= bits >> np.uint64(32)
        numbers[start : start + ROWS] = bits @ weights
    return numbers

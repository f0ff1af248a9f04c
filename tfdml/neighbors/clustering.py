"""K-means of embeddings, and matching new clusters to learners."""

import numpy as np

from tfdml.console.progress_bar import ProgressBar
from tfdml.neighbors.faiss_library import load_faiss
from tfdml.neighbors.lloyd import Lloyd

# Rows that are checked at once, so that memory-mapped embeddings stay on disk.
ROWS = 8192
# What random numbers of restarts differ by in faiss.
NEXT = 15_486_557
# An odd factor whose products have each bit of a number in many of theirs: 2^64 divided by the golden ratio.
MIXING = np.uint64(0x9E3779B97F4A7C15)


def kmeans(embeddings, clusters, *, seed, iterations=50, restarts=1, at_most=False):
    """Clusters embeddings by K-means, on GPUs if there are any.

    The clusters are those of faiss' K-means with the same seed, but for rounding, where no cluster is ever empty. All
    rows are used, and the same arguments give the same result.

    Args:
        embeddings: `[N, d]`, finite.
        clusters: number of clusters.
        seed: integer, determines the initial centroids.
        iterations: number of iterations of Lloyd's algorithm.
        restarts: number of runs; the one with the smallest distances is used.
        at_most: whether there are as many clusters as distinct rows where these are fewer; it is an error otherwise.

    Returns:
        The cluster `[N]` of each row, and the centroids `[clusters, d]`.
    """
    points = np.ascontiguousarray(embeddings, np.float32)
    clusters = _possible(points, clusters, at_most)
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
    _, assignment, centroids = min(found, key=lambda each: each[0])
    return assignment, centroids


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

    Appendix A of Divide and Conquer: the assignment with the largest sum of intersections over unions. So a cluster may
    get another learner than the one with the cluster that it overlaps most with.

    Args:
        before: `[N]` previous learner of each row.
        after: `[N]` new cluster of each row, in any numbering.
        clusters: number of clusters, and of learners.

    Returns:
        `[N]` new learner of each row.
    """
    # Imported here, because it would make `import tfdml` slow.
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
        raise ValueError(f"{len(broken)} of {len(embeddings)} embeddings are not finite; the first is row {broken[0]}.")


def _possible(embeddings, clusters, at_most):
    """Returns the number of clusters, after looking at the embeddings."""
    if embeddings.ndim != 2:
        raise ValueError(f"Expected embeddings of shape [rows, dim], received shape {embeddings.shape}.")
    check_finite(embeddings)
    distinct = distinct_count(embeddings)
    if distinct < clusters and not at_most:
        raise ValueError(
            f"{clusters} clusters need as many distinct embeddings, but the {len(embeddings)} rows have {distinct}: "
            "the network maps many images to the same embedding. Train longer before dividing, or use fewer learners."
        )
    return min(clusters, distinct)


def _starts(points, clusters, seed):
    """Returns the random rows where centroids are at first: those of faiss, but none twice."""
    faiss, order = load_faiss(), np.empty(len(points), np.int32)
    faiss.rand_perm(faiss.swig_ptr(order), len(order), seed)
    _, first = np.unique(_row_numbers(points)[order], return_index=True)
    return order[np.sort(first)[:clusters]]


def _row_numbers(embeddings):
    """Returns a number `[N]` for each row: the same for equal rows, and, but for a chance of 2^-64, not for others.

    Comparing numbers is much faster than comparing rows. They are computed of integers, because a floating-point sum
    depends on where a row lies in memory.
    """
    weights = np.random.default_rng(0).integers(2**64, size=embeddings.shape[1], dtype=np.uint64)
    numbers = np.empty(len(embeddings), np.uint64)
    for start in range(0, len(embeddings), ROWS):
        # Adding 0 makes -0 the same as 0.
        block = np.asarray(embeddings[start : start + ROWS], np.float32) + np.float32(0)
        bits = block.view(np.uint32).astype(np.uint64) * MIXING
        # Low bits of a sum of products depend on no high bits, such as signs.
        bits ^= bits >> np.uint64(32)
        numbers[start : start + ROWS] = bits @ weights
    return numbers

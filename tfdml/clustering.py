"""K-means of embeddings, and which of the new clusters goes on with which learner."""

import logging

import numpy as np


def kmeans(embeddings, clusters, *, seed, iterations=50, restarts=1):
    """The cluster `[N]` of each row by faiss' K-means, and the centroids `[clusters, d]`.

    All rows are used, and the same arguments give the same result. faiss computes on a GPU where it has one.

    Args:
        embeddings: `[N, d]` finite numbers.
        clusters: number of clusters.
        seed: integer, decides the first centroids.
        iterations: of Lloyd's algorithm.
        restarts: how often it begins anew; the run with the least distances is taken.
    """
    # Imported where it is used: it is slow to load, and of two builds with the same name only one may be there.
    logging.getLogger("faiss.loader").setLevel(logging.WARNING)  # It tells which instructions it looks for.
    import faiss

    embeddings = np.ascontiguousarray(embeddings, np.float32)
    _check_points(embeddings, clusters)
    options = {
        "niter": iterations,
        "nredo": restarts,
        "seed": seed,
        # faiss samples 256 points a centroid otherwise, and warns of fewer than 39.
        "max_points_per_centroid": len(embeddings),
        "min_points_per_centroid": 1,
        "gpu": faiss.get_num_gpus() > 0 if hasattr(faiss, "get_num_gpus") else False,
    }
    search = faiss.Kmeans(embeddings.shape[1], clusters, **options)
    search.train(embeddings)
    _, assignment = search.index.search(embeddings, 1)
    return assignment[:, 0].astype(np.int64), search.centroids


def overlap(before, after, clusters):
    """Intersection over union `[clusters, clusters]` of the rows of each old and each new cluster."""
    both = np.bincount(before * clusters + after, minlength=clusters**2).reshape(clusters, clusters)
    union = both.sum(axis=1, keepdims=True) + both.sum(axis=0, keepdims=True) - both
    return both / np.maximum(union, 1)


def matched(before, after, clusters):
    """The new clusters under the numbers of the old ones that they overlap most with.

    Appendix A of Divide and Conquer: the one-to-one assignment with the largest sum of intersections over unions, so
    that each learner goes on with the rows that it knows.

    Args:
        before: `[N]` learner of each row until now.
        after: `[N]` new cluster of each row, numbered as it happened.
        clusters: number of both.

    Returns:
        `[N]` learner of each row from now on.
    """
    # Imported where it is used, as faiss is: `import tfdml` does without scipy.
    from scipy.optimize import linear_sum_assignment

    learners, found = linear_sum_assignment(overlap(before, after, clusters), maximize=True)
    learner_of = np.empty(clusters, np.int64)
    learner_of[found] = learners
    return learner_of[after]


def _check_points(embeddings, clusters):
    if embeddings.ndim != 2:
        raise ValueError(f"Expected embeddings of shape [rows, dim], received shape {embeddings.shape}.")
    broken = np.flatnonzero(~np.isfinite(embeddings).all(axis=1))
    if len(broken):
        raise ValueError(f"{len(broken)} of {len(embeddings)} embeddings are not finite, row {broken[0]} first.")
    # Rows whose products with random numbers differ are different rows; counting these is much quicker.
    direction = np.random.default_rng(0).normal(size=embeddings.shape[1]).astype(np.float32)
    distinct = len(np.unique(embeddings @ direction))
    if distinct < clusters:
        raise ValueError(
            f"{clusters} clusters need that many different embeddings, the {len(embeddings)} rows have {distinct}: the "
            "network gives the same embedding to many images. Train longer before dividing, or use fewer learners."
        )

"""K-means of embeddings, and matching new clusters to learners."""

import contextlib
import threading

import numpy as np

from tfdml.console.progress_bar import ProgressBar
from tfdml.neighbors.faiss_library import load_faiss

# Rows that are checked at once, so that memory-mapped embeddings stay on disk.
ROWS = 8192
# Seconds after which K-means begins to tell how far it is, and from one look to the next.
SOON, EVERY = 1.0, 0.5


def kmeans(embeddings, clusters, *, seed, iterations=50, restarts=1):
    """Clusters embeddings with faiss' K-means, on a GPU if there is one.

    All rows are used, and the same arguments give the same result.

    Args:
        embeddings: `[N, d]`, finite.
        clusters: number of clusters.
        seed: integer, determines the initial centroids.
        iterations: number of iterations of Lloyd's algorithm.
        restarts: number of runs; the one with the smallest distances is used.

    Returns:
        The cluster `[N]` of each row, and the centroids `[clusters, d]`.
    """
    faiss = load_faiss()
    embeddings = np.ascontiguousarray(embeddings, np.float32)
    _check_points(embeddings, clusters)
    options = {
        "niter": iterations,
        "nredo": restarts,
        "seed": seed,
        # By default faiss samples 256 points per centroid, and warns below 39.
        "max_points_per_centroid": len(embeddings),
        "min_points_per_centroid": 1,
        "gpu": faiss.get_num_gpus() > 0,
    }
    search = faiss.Kmeans(embeddings.shape[1], clusters, **options)
    # As `search.train` does; its own could not be asked how far it is.
    clustering = faiss.Clustering(embeddings.shape[1], clusters, search.cp)
    with _progress_shown(lambda: clustering.iteration_stats.size(), iterations * restarts):
        clustering.train(embeddings, search.index)
    _, assignment = search.index.search(embeddings, 1)
    centroids = faiss.vector_float_to_array(clustering.centroids)
    return assignment[:, 0].astype(np.int64), centroids.reshape(clusters, -1)


def nearest_centroids(embeddings, centroids):
    """Returns the nearest of centroids `[clusters, d]` for each embedding `[N, d]`, `[N]`."""
    index = load_faiss().IndexFlatL2(centroids.shape[1])
    index.add(centroids)
    _, found = index.search(np.ascontiguousarray(embeddings, np.float32), 1)
    return found[:, 0]


def distinct_count(embeddings):
    """Returns a number of rows that differ from each other: nearly always that of all distinct rows."""
    # Rows whose products with a random vector differ are distinct; counting these is much faster.
    direction = np.random.default_rng(0).normal(size=embeddings.shape[1]).astype(np.float32)
    return len(np.unique(embeddings @ direction))


def overlap(before, after, clusters):
    """Returns the intersection over union `[clusters, clusters]` of each old and each new cluster."""
    both = np.bincount(before * clusters + after, minlength=clusters**2).reshape(clusters, clusters)
    union = both.sum(axis=1, keepdims=True) + both.sum(axis=0, keepdims=True) - both
    return both / np.maximum(union, 1)


def matched(before, after, clusters):
    """Assigns each new cluster to the learner whose previous cluster it overlaps most with.

    Appendix A of Divide and Conquer: the one-to-one assignment with the largest sum of intersections over unions, so
    that each learner mostly keeps its rows.

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


@contextlib.contextmanager
def _progress_shown(done, total):
    """A context that tells how many iterations are done, where they take long.

    Args:
        done: function that returns the number of iterations done; called in another thread.
        total: number of all.
    """
    ended = threading.Event()

    def tell():
        if ended.wait(SOON):
            return
        shown = min(done(), total)
        bar = ProgressBar(total, "K-means iteration", done=shown)
        while not ended.wait(EVERY):
            now = min(done(), total)
            bar.add(max(now - shown, 0))
            shown = max(now, shown)
        bar.add(total - shown)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()


def _check_points(embeddings, clusters):
    if embeddings.ndim != 2:
        raise ValueError(f"Expected embeddings of shape [rows, dim], received shape {embeddings.shape}.")
    check_finite(embeddings)
    distinct = distinct_count(embeddings)
    if distinct < clusters:
        raise ValueError(
            f"{clusters} clusters need as many distinct embeddings, but the {len(embeddings)} rows have {distinct}: "
            "the network maps many images to the same embedding. Train longer before dividing, or use fewer learners."
        )

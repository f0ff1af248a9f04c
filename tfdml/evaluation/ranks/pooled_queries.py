"""Several images of a query as one query."""

import dataclasses

import numpy as np

from tfdml.evaluation.search import RetrievalTask
from tfdml.neighbors.clustering import check_finite
from tfdml.neighbors.nearest import unit_length

POOLS = {"mean": np.add, "max": np.maximum}


@dataclasses.dataclass(frozen=True)
class PooledQueries:
    """Queries whose embeddings are pooled over those of a class that no `apart` column tells apart.

    Args:
        embeddings: `[N + P, d]` array: the images, then the pooled queries.
        task: `RetrievalTask` of the latter.
        first: `[P]` row of the first image of each query, ascending.
    """

    embeddings: np.ndarray
    task: RetrievalTask
    first: np.ndarray

    @classmethod
    def of(cls, embeddings, task, distance):
        """Pools the queries of a task.

        Args:
            embeddings: `[N, d]` array, finite; the result is a copy in memory.
            task: `RetrievalTask` among its rows, whose `pooling` is set.
            distance: `cosine`, by which embeddings are pooled at unit length, or `euclidean`.
        """
        check_finite(embeddings)
        queries, count = task.queries, len(embeddings)
        keys = np.stack([task.labels, *task.apart], axis=1)[queries]
        _, first, groups = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        points = np.asarray(embeddings[queries], np.float64)
        points = _pooled(points if distance == "euclidean" else unit_length(points), groups.ravel(), task.pooling)
        order = np.argsort(first)
        first = queries[first[order]]
        # In float32 at least, because pooled halves would be rounded.
        pooled = points[order].astype(np.result_type(embeddings.dtype, np.float32))
        labels, *apart = (np.concatenate([column, column[first]]) for column in (task.labels, *task.apart))
        among = RetrievalTask(labels, count + np.arange(len(first)), task.gallery, tuple(apart))
        return cls(np.concatenate([embeddings, pooled]), among, first)


def _pooled(points, groups, pooling):
    """Returns the mean or largest components `[P, d]` of each group of points `[Q, d]`."""
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups)
    if not len(sizes):
        return points
    pooled = POOLS[pooling].reduceat(points[order], np.cumsum(sizes) - sizes, axis=0)
    return pooled / sizes[:, None] if pooling == "mean" else pooled

"""Queries, gallery, and the nearest images of a query."""

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Literal, Self

import numpy as np

from tfdml.evaluation.ranks.exact_vectors import ExactVectors
from tfdml.evaluation.ranks.ranks import positive_ranks
from tfdml.neighbors.clustering import check_finite
from tfdml.neighbors.nearest import unit_length
from tfdml.registry.arguments import Embeddings, Labels, Rows


@dataclasses.dataclass(frozen=True)
class RetrievalTask:
    """A retrieval task: which images are queries, and in which gallery they are searched.

    A query is never its own neighbor. A gallery image that has the same class as the query and the same value in one of
    the `apart` columns is ignored: it counts neither as a hit nor as a miss.

    Args:
        labels: `[N]` integer class labels.
        queries: `[Q]` rows of the queries.
        gallery: `[G]` rows that are searched.
        apart: Tuple of integer columns `[N]`, such as cameras. Defaults to `()`.
        pooling: `"mean"` or `"max"`. How to pool the embeddings of queries with the same class and `apart` columns into
            one query. If `None`, each image is a query. Defaults to `None`.
    """

    labels: np.ndarray
    queries: np.ndarray
    gallery: np.ndarray
    apart: tuple = ()
    pooling: str | None = None

    @classmethod
    def of(
        cls,
        labels: Labels,
        *,
        queries: Rows | None = None,
        gallery: Rows | None = None,
        apart: Sequence[Labels] = (),
        pooling: Literal["mean", "max"] | None = None,
    ) -> Self:
        """Creates a task from labels `[N]` and booleans `[N]` that mark queries and gallery.

        If `queries` or `gallery` is None, all rows are marked.
        """
        labels = flat_labels(labels)
        # A missing label is NaN among floats, and None or NaN among objects such as strings. NaN does not equal itself.
        may_miss = labels.tolist() if labels.dtype.kind in "fO" else []
        missing = [row for row, label in enumerate(may_miss) if label is None or label != label]
        if missing:
            raise ValueError(f"{len(missing)} of {len(labels)} labels are missing. The first is in row {missing[0]}.")
        numbers = np.unique(labels, return_inverse=True)[1].astype(np.int64)
        if len(labels) > 1 and not numbers.any():
            warnings.warn(
                f"All {len(labels)} labels are equal, so every neighbor is right: metrics such as Recall@1 are 1 for "
                "any embeddings. Check the labels.",
                stacklevel=3,
            )
        columns = tuple(map(np.asarray, apart))
        marks = [np.ones(len(labels), bool) if each is None else np.asarray(each, bool) for each in (queries, gallery)]
        for what, arrays in (("value", columns), ("boolean", marks)):
            for each in arrays:
                if each.shape != labels.shape:
                    raise ValueError(
                        f"Expected one {what} for each of the {len(labels)} rows. Received: shape {each.shape}."
                    )
        return cls(numbers, *map(np.flatnonzero, marks), columns, pooling)

    def countable(self, queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Returns booleans `[Q, R]`: whether a gallery row with the query's class counts as a hit."""
        counted = queries[:, None] != rows
        for column in self.apart:
            counted &= column[queries][:, None] != column[rows]
        return counted

    def check(self, embeddings: Embeddings) -> None:
        """Raises a ValueError if embeddings are not an array `[N, d]` of numbers."""
        if embeddings.ndim != 2 or not all(embeddings.shape) or embeddings.dtype.kind not in "fiu":
            raise ValueError(
                f"embeddings must be numbers of shape [N, d]. Received: shape {embeddings.shape} and type "
                f"{embeddings.dtype}."
            )
        if len(embeddings) != len(self.labels):
            raise ValueError(
                f"Expected one embedding per label. Received: shapes {embeddings.shape} and {self.labels.shape}."
            )


def flat_labels(labels):
    """Returns labels as an array `[N]`. Some datasets have labels `[N, 1]`, which are flattened."""
    labels = np.asarray(labels)
    if labels.ndim == 2 and labels.shape[1] == 1:
        return labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(
            f"labels must have shape [N], one integer class label per row. Received: shape {labels.shape}."
        )
    return labels


# Number of queries that are compared with the whole gallery at once.
BLOCK = 256


@dataclasses.dataclass(frozen=True)
class Retrieved:
    """The nearest gallery images of queries, nearest first.

    `rows` `[Q, k]` end with -1 if the gallery has fewer than k images, and `right` marks the rows with the query's
    class. `first` `[Q]` is the rank of the first right neighbor in the whole gallery, starting at 1, or 0 if there is
    none.
    """

    queries: np.ndarray
    rows: np.ndarray
    right: np.ndarray
    first: np.ndarray

    @classmethod
    def of(cls, embeddings, task, k, *, distance="cosine", most=5000, seed=0, bar=None):
        """Searches for the k nearest images of each query, or of a random sample if there are more than `most`.

        Pooling is ignored. `bar` is a function that maps the number of lookups, two per query, to a `ProgressBar`. If
        it is None, no bar is shown.
        """
        queries = task.queries
        if len(queries) > most:
            queries = np.sort(np.random.default_rng(seed).choice(queries, most, replace=False))
        task = dataclasses.replace(task, queries=queries, pooling=None)
        vectors, labels = ExactVectors.of(embeddings, distance), task.labels
        lookups = bar(2 * len(queries)) if bar else None
        rows = np.zeros([len(queries), min(k, len(task.gallery))], np.int64)
        for start in range(0, len(queries), BLOCK):
            block = queries[start : start + BLOCK]
            rows[start : start + BLOCK] = _nearest(vectors, task, block, rows.shape[1])
            if lookups:
                lookups.add(len(block))
        ranks = np.zeros(len(labels), np.int64)
        for block in positive_ranks(embeddings, task, distance=distance, first_only=True):
            ranks[block.rows] = block.first
            if lookups:
                lookups.add(len(block.rows))
        if lookups:
            # Queries without a right image in the gallery have no ranks.
            lookups.end()
        return cls(queries, rows, (labels[rows] == labels[queries][:, None]) & (rows >= 0), ranks[queries])

    def recall(self, ranks):
        """Returns Recall@K `[len(ranks)]` for each K, over queries that have a right image in the gallery."""
        found = self.first[self.first > 0]
        return np.array([np.mean(found <= rank) if len(found) else np.nan for rank in ranks])


def _nearest(vectors, task, queries, k):
    """Returns the gallery rows `[B, k]` that are nearest to the queries, without rows that do not count."""
    gallery = task.gallery
    closeness = vectors.vectors[queries] @ vectors.vectors[gallery].T - vectors.offsets[gallery].astype(np.float32)
    same = task.labels[queries][:, None] == task.labels[gallery]
    closeness[(queries[:, None] == gallery) | (same & ~task.countable(queries, gallery))] = -np.inf
    near = np.argpartition(closeness, closeness.shape[1] - k, axis=1)[:, -k:]
    order = np.argsort(-np.take_along_axis(closeness, near, axis=1), axis=1, kind="stable")
    near = np.take_along_axis(near, order, axis=1)
    counted = np.take_along_axis(closeness, near, axis=1) > -np.inf
    return np.where(counted, gallery[near], -1)


POOLS = {"mean": np.add, "max": np.maximum}


@dataclasses.dataclass(frozen=True)
class PooledQueries:
    """Queries with embeddings that are pooled over images with the same class and `apart` columns.

    `embeddings` `[N + P, d]` are the images followed by the pooled queries, and `task` refers to these rows. `first`
    `[P]` is the row of the first image of each query, ascending.
    """

    embeddings: np.ndarray
    task: RetrievalTask
    first: np.ndarray

    @classmethod
    def of(cls, embeddings, task, distance):
        """Pools the queries of a task that has `pooling`, after L2 normalization unless the distance is `euclidean`.

        The result is a copy in memory.
        """
        check_finite(embeddings)
        queries, count = task.queries, len(embeddings)
        keys = np.stack([task.labels, *task.apart], axis=1)[queries]
        _, first, groups = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        points = np.asarray(embeddings[queries], np.float64)
        points = _pooled(points if distance == "euclidean" else unit_length(points), groups.ravel(), task.pooling)
        order = np.argsort(first)
        first = queries[first[order]]
        # At least float32, because float16 would round the pooled values.
        pooled = points[order].astype(np.result_type(embeddings.dtype, np.float32))
        labels, *apart = (np.concatenate([column, column[first]]) for column in (task.labels, *task.apart))
        among = RetrievalTask(labels, count + np.arange(len(first)), task.gallery, tuple(apart))
        return cls(np.concatenate([embeddings, pooled]), among, first)


def _pooled(points, groups, pooling):
    """Returns the mean or the maximum `[P, d]` of each group of points `[Q, d]`."""
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups)
    if not len(sizes):
        return points
    pooled = POOLS[pooling].reduceat(points[order], np.cumsum(sizes) - sizes, axis=0)
    return pooled / sizes[:, None] if pooling == "mean" else pooled

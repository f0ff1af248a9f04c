"""Which rows are queries and which form the gallery, and the nearest images of a query."""

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
    """Queries in a gallery.

    A query is never its own neighbor. A gallery image of the query's class counts neither as found nor as missed if it
    equals the query in any of the `apart` columns.

    Args:
        labels: `[N]` class numbers.
        queries: `[Q]` rows that are queries.
        gallery: `[G]` rows that are searched.
        apart: columns `[N]` of integers, such as cameras.
        pooling: `mean` or `max` of embeddings, for one query of all those that share class and `apart` columns; None:
            each is a query.
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
        """Creates a task from labels `[N]` and booleans `[N]` that mark queries and gallery; None marks all rows."""
        labels = flat_labels(labels)
        # Of floats NaN, and of objects, such as texts, NaN or None: neither is itself.
        may_miss = labels.tolist() if labels.dtype.kind in "fO" else []
        missing = [row for row, label in enumerate(may_miss) if label is None or label != label]
        if missing:
            raise ValueError(f"{len(missing)} of {len(labels)} labels are missing; the first is row {missing[0]}.")
        numbers = np.unique(labels, return_inverse=True)[1].astype(np.int64)
        if len(labels) > 1 and not numbers.any():
            warnings.warn(
                f"All {len(labels)} labels are equal, so every neighbor is right: Recall@1 and the like are 1 for any "
                "embeddings.",
                stacklevel=3,
            )
        columns = tuple(map(np.asarray, apart))
        marks = [np.ones(len(labels), bool) if each is None else np.asarray(each, bool) for each in (queries, gallery)]
        for what, arrays in (("value", columns), ("boolean", marks)):
            for each in arrays:
                if each.shape != labels.shape:
                    raise ValueError(
                        f"Expected one {what} for each of {len(labels)} rows, received shape {each.shape}."
                    )
        return cls(numbers, *map(np.flatnonzero, marks), columns, pooling)

    def countable(self, queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Returns booleans `[Q, R]`: whether a gallery row of a query's class counts as found."""
        counted = queries[:, None] != rows
        for column in self.apart:
            counted &= column[queries][:, None] != column[rows]
        return counted

    def check(self, embeddings: Embeddings) -> None:
        """Raises a ValueError if embeddings are not `[N, d]` numbers."""
        if embeddings.ndim != 2 or not all(embeddings.shape) or embeddings.dtype.kind not in "fiu":
            raise ValueError(
                f"Expected embeddings [N, d] of numbers, received shape {embeddings.shape} and type {embeddings.dtype}."
            )
        if len(embeddings) != len(self.labels):
            raise ValueError(
                f"Expected an embedding for each label, received shapes {embeddings.shape} and {self.labels.shape}."
            )


def flat_labels(labels):
    """Returns labels as an array `[N]`; `[N, 1]`, as some datasets have them, become flat."""
    labels = np.asarray(labels)
    if labels.ndim == 2 and labels.shape[1] == 1:
        return labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(f"Expected labels [N], one class number a row; received shape {labels.shape}.")
    return labels


# Queries that are compared with the whole gallery at once.
BLOCK = 256


@dataclasses.dataclass(frozen=True)
class Retrieved:
    """The nearest gallery images of queries, nearest first.

    `rows` `[Q, k]` are -1 behind the last if the gallery has fewer, and `right` says which are of the query's class.
    `first` `[Q]` is the rank of the first right neighbor in the whole gallery, from 1; 0 if it has none.
    """

    queries: np.ndarray
    rows: np.ndarray
    right: np.ndarray
    first: np.ndarray

    @classmethod
    def of(cls, embeddings, task, k, *, distance="cosine", most=5000, seed=0, bar=None):
        """Searches for k neighbors of each query alone, or of a random sample if there are more than `most`.

        `bar` is a function of a number of lookups, two for each query, that gives a `ProgressBar`; None for no bar.
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
    """The rows `[B, k]` that are nearest to queries among those that count."""
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
    """Queries whose embeddings are pooled over those of a class that no `apart` column tells apart.

    `embeddings` `[N + P, d]` are the images, then the pooled queries, of which `task` is; `first` `[P]` is the row of
    the first image of each query, ascending.
    """

    embeddings: np.ndarray
    task: RetrievalTask
    first: np.ndarray

    @classmethod
    def of(cls, embeddings, task, distance):
        """Pools the queries of a task whose `pooling` is set, at unit length unless the distance is `euclidean`.

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

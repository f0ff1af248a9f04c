"""The nearest gallery images of queries, for people to look at."""

import dataclasses

import numpy as np

from tfdml.evaluation.ranks.exact_vectors import ExactVectors
from tfdml.evaluation.ranks.positive_ranks import positive_ranks

# Queries that are compared with the whole gallery at once.
BLOCK = 256


@dataclasses.dataclass(frozen=True)
class Retrieved:
    """The nearest gallery images of queries, nearest first.

    Args:
        queries: `[Q]` rows of the queries, ascending.
        rows: `[Q, k]` rows of the gallery; -1 behind the last if it has fewer.
        right: `[Q, k]` booleans: whether a neighbor is of the query's class.
        first: `[Q]` rank of the first right neighbor in the whole gallery, from 1; 0 if the gallery has none.
    """

    queries: np.ndarray
    rows: np.ndarray
    right: np.ndarray
    first: np.ndarray

    @classmethod
    def of(cls, embeddings, task, k, *, distance="cosine", most=5000, seed=0, bar=None):
        """Searches for neighbors.

        Args:
            embeddings: `[N, d]` array, finite.
            task: `RetrievalTask` among its rows; each query is searched for alone.
            k: number of neighbors.
            distance: `cosine` or `euclidean`.
            most: maximum number of queries; of more a random sample.
            seed: determines the sample.
            bar: function of a number of lookups, two for each query, that gives a `ProgressBar`; None for no bar.
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
        for each in positive_ranks(embeddings, task, distance=distance, first_only=True):
            ranks[each.rows] = each.first
            if lookups:
                lookups.add(len(each.rows))
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

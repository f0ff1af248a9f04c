"""`IndexedGallery`: a gallery in an index of faiss."""

import functools

import numpy as np

from tfdml.evaluation.ranks.exact_vectors import ExactVectors
from tfdml.neighbors.nearest import load_faiss

# Rows that are added or compared at once.
ROWS = 16384


class IndexedGallery:
    """Finds rows of a gallery that are nearest to a query.

    Args:
        index: `ApproximateIndex`.
        embeddings: `[N, d]` array, finite.
        rows: `[G]` rows of the gallery.
        distance: `cosine` or `euclidean`.
    """

    def __init__(self, index, embeddings, rows, distance):
        self.index, self.rows = index.of_size(len(rows)), rows
        self.vectors = ExactVectors.of(embeddings, distance)
        faiss = load_faiss()
        self.metric = faiss.METRIC_L2 if distance == "euclidean" else faiss.METRIC_INNER_PRODUCT

    def nearest(self, queries, count):
        """Returns for each query the rows that the index finds, at most `count`.

        Args:
            queries: `[Q]` rows of the queries.
            count: number of rows, at most that of the gallery.
        """
        found = self._filled.search(self._vectors(queries), count)[1]
        return [self.rows[each[each >= 0]] for each in found]

    def exactly_nearest(self, queries, count):
        """Returns the rows `[Q, count]` that are nearest; arguments as of `nearest`."""
        from faiss.contrib.exhaustive_search import knn_ground_truth

        return self.rows[knn_ground_truth(self._vectors(queries), self._blocks(), count, self.metric)[1]]

    def compared(self, query, rows):
        """Returns the exact similarities `[R]` of a query's row to other rows, and their ties, a number or `[R]`."""
        similarities = self.vectors.similarities_of_one(self.vectors.vectors[query], rows)
        ties = self.vectors.ties(self.vectors.offsets[[query]], rows)
        return similarities, ties[0] if np.ndim(ties) else ties

    @functools.cached_property
    def _filled(self):
        index = self.index.create(self.vectors.vectors.shape[1], self.metric, self._sample)
        for block in self._blocks():
            index.add(block)
        return index

    def _sample(self, count):
        """Returns at most `count` random vectors of the gallery."""
        drawn = np.random.default_rng(0).choice(self.rows, min(count, len(self.rows)), replace=False)
        return self._vectors(np.sort(drawn))

    def _blocks(self):
        for start in range(0, len(self.rows), ROWS):
            yield self._vectors(self.rows[start : start + ROWS])

    def _vectors(self, rows):
        return np.ascontiguousarray(self.vectors.vectors[rows])

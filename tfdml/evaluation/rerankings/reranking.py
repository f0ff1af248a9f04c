"""Rerankings by other embeddings: query expansion and database-side augmentation."""

from collections.abc import Iterator

import numpy as np

from tfdml.evaluation.queries import RetrievalTask
from tfdml.evaluation.ranks.ranks import PositiveRanks, positive_ranks
from tfdml.neighbors.clustering import check_finite
from tfdml.neighbors.nearest import nearest_others, unit_length
from tfdml.registry import register
from tfdml.registry.arguments import Count, Embeddings, NotNegative
from tfdml.registry.fields import Declared


class Reranking(Declared):
    """Ranks the gallery by more than the cosine similarity of a query to one image."""

    def ranks(
        self, embeddings: Embeddings, task: RetrievalTask, *, first_only: bool = False
    ) -> Iterator[PositiveRanks]:
        """Yields `PositiveRanks` of blocks of queries; arguments as of `positive_ranks`."""
        check_finite(embeddings)
        return self.ranks_of_points(unit_length(np.asarray(embeddings, np.float32)), task, first_only)

    def ranks_of_points(self, points: np.ndarray, task: RetrievalTask, first_only: bool) -> Iterator[PositiveRanks]:
        """Yields `PositiveRanks` of blocks of queries.

        Args:
            points: `[N, d]` float32 array at unit length.
            task: `RetrievalTask` among its rows.
            first_only: True for the rank of each query's first positive only.
        """
        raise NotImplementedError

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


class EmbeddingReranking(Reranking):
    """Ranks the gallery by cosine similarity, of other embeddings than those given."""

    def sides(self, points: np.ndarray, task: RetrievalTask) -> tuple[np.ndarray, np.ndarray]:
        """Returns the embeddings `[N, d]` whose rows are searched for, and those `[N, d]` that are searched."""
        raise NotImplementedError

    def ranks_of_points(self, points, task, first_only):
        queries, gallery = self.sides(points, task)
        return positive_ranks(gallery, task, query_embeddings=queries, first_only=first_only)


# Rows that are mixed at once.
ROWS = 1024


def mixed(points, rows, neighbors, alpha):
    """Returns a copy of points `[N, d]` where some rows are the sum of themselves and their neighbors, at unit length.

    `neighbors` `[Q, k]` are those of each row. A neighbor's weight is its cosine similarity to the power of alpha; a
    negative similarity counts as 0.
    """
    changed = points.copy()
    for start in range(0, len(rows), ROWS):
        some = rows[start : start + ROWS]
        near = points[neighbors[start : start + ROWS]]
        weights = np.maximum(np.einsum("nd,nkd->nk", points[some], near), 0.0) ** alpha
        changed[some] = unit_length(points[some] + np.einsum("nk,nkd->nd", weights, near))
    return changed


@register("reranking", "database_augmentation")
class DatabaseAugmentation(EmbeddingReranking):
    """Searches, instead of each gallery image, the sum of it and its K nearest in the gallery.

    The idea of "Three Things Everyone Should Know to Improve Object Retrieval" (CVPR 2012), on embeddings: the plain
    sum, or one weighted as by `query_expansion`. Labels are not used. Queries are searched for as they are.

    Args:
        k: number of neighbors; an image is no neighbor of itself.
        alpha: how much less a neighbor counts that is less similar; 0: each counts the same.
    """

    k: Count = 10
    alpha: NotNegative = 0.0

    def sides(self, points, task):
        neighbors = nearest_others(points, task.gallery, task.gallery, self.k)
        return points, mixed(points, task.gallery, neighbors, self.alpha)


@register("reranking", "query_expansion")
class QueryExpansion(EmbeddingReranking):
    """Searches for the sum of a query and its K nearest in the gallery, weighted by similarity to the power of alpha.

    Alpha-weighted query expansion, from "Fine-Tuning CNN Image Retrieval with No Human Annotation" (PAMI 2019). At
    alpha = 0 it is average query expansion. Negative similarities count as 0.

    Args:
        k: number of neighbors; a query is no neighbor of itself.
        alpha: how much less a neighbor counts that is less similar.
    """

    k: Count = 10
    alpha: NotNegative = 3.0

    def sides(self, points, task):
        neighbors = nearest_others(points, task.queries, task.gallery, self.k)
        return mixed(points, task.queries, neighbors, self.alpha), points

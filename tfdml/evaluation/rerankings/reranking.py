"""Rerankings that change embeddings: query expansion and database augmentation."""

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
    """Base class of rerankings, which rank the gallery by more than the similarity of a query to one image.

    A reranking is created from its spec, such as `query_expansion(k=5)`, for the argument `reranking` of a protocol. It
    uses embeddings of the test images but not their labels.

    Example:

    ```python
    tfdml.registry.create("reranking", "query_expansion(k=5)").k  # 5
    ```
    """

    def ranks(
        self, embeddings: Embeddings, task: RetrievalTask, *, first_only: bool = False
    ) -> Iterator[PositiveRanks]:
        """Yields `PositiveRanks` of blocks of queries; for the arguments, see `positive_ranks`."""
        check_finite(embeddings)
        return self.ranks_of_points(unit_length(np.asarray(embeddings, np.float32)), task, first_only)

    def ranks_of_points(self, points: np.ndarray, task: RetrievalTask, first_only: bool) -> Iterator[PositiveRanks]:
        """Yields `PositiveRanks` of blocks of queries.

        Args:
            points: `[N, d]` float32 array, L2-normalized.
            task: `RetrievalTask` on its rows.
            first_only: Boolean. Whether only the rank of each query's first positive is needed.
        """
        raise NotImplementedError

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


class EmbeddingReranking(Reranking):
    """Base class of rerankings that rank by cosine similarity of modified embeddings."""

    def sides(self, points: np.ndarray, task: RetrievalTask) -> tuple[np.ndarray, np.ndarray]:
        """Returns two arrays `[N, d]`: embeddings for the queries, and embeddings for the gallery."""
        raise NotImplementedError

    def ranks_of_points(self, points, task, first_only):
        queries, gallery = self.sides(points, task)
        return positive_ranks(gallery, task, query_embeddings=queries, first_only=first_only)


# Number of rows that are mixed at once.
ROWS = 1024


def mixed(points, rows, neighbors, alpha):
    """Returns a copy of points `[N, d]` in which some rows are replaced by a weighted sum with their neighbors.

    `neighbors` are `[Q, k]` for these rows. The weight of a neighbor is its cosine similarity to the power of alpha. A
    negative similarity counts as 0. The sums are L2-normalized.
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
    """Replaces each gallery image by the sum of itself and its K nearest images in the gallery.

    The idea of "Three Things Everyone Should Know to Improve Object Retrieval" (CVPR 2012), applied to embeddings: a
    plain sum, or a sum with the weights of `query_expansion`. Labels are not used, and queries are not changed.

    Args:
        k: Integer. Number of neighbors, without the image itself. Defaults to `10`.
        alpha: Float. With a larger value, less similar neighbors have less weight. If 0, all neighbors have the same
            weight. Defaults to `0.0`.
    """

    k: Count = 10
    alpha: NotNegative = 0.0

    def sides(self, points, task):
        neighbors = nearest_others(points, task.gallery, task.gallery, self.k)
        return points, mixed(points, task.gallery, neighbors, self.alpha)


@register("reranking", "query_expansion")
class QueryExpansion(EmbeddingReranking):
    """Replaces each query by the weighted sum of itself and its K nearest images in the gallery.

    Alpha-weighted query expansion, from "Fine-Tuning CNN Image Retrieval with No Human Annotation" (PAMI 2019): the
    weight of a neighbor is its similarity to the power of alpha, and negative similarities count as 0. With `alpha=0`,
    it is average query expansion.

    Args:
        k: Integer. Number of neighbors, without the query itself. Defaults to `10`.
        alpha: Float. With a larger value, less similar neighbors have less weight. Defaults to `3.0`.
    """

    k: Count = 10
    alpha: NotNegative = 3.0

    def sides(self, points, task):
        neighbors = nearest_others(points, task.queries, task.gallery, self.k)
        return mixed(points, task.queries, neighbors, self.alpha), points

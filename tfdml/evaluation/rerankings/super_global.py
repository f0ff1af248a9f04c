"""Re-ranking of the first images by embeddings alone, from SuperGlobal (Shao et al. 2023)."""

import numpy as np

from tfdml.evaluation.ranks.ranks import ranks_of_similarities
from tfdml.evaluation.rerankings.reranking import Reranking
from tfdml.registry import register
from tfdml.registry.arguments import Count, NotNegative

# Bytes for the similarities that are computed at once.
MEMORY = 2**26


@register("reranking", "super_global")
class SuperGlobal(Reranking):
    """Re-ranks each query's first images by means over their neighbors, and by the maximum over the first few.

    The re-ranking stage of Shao et al., Global Features Are All You Need for Image Retrieval and Reranking (ICCV 2023),
    as in the authors' code:

    1. Each of the query's first images becomes the weighted mean of itself and its nearest images among them. A
       neighbor has the weight `beta` times its cosine similarity, where negative similarities count as 0.
    2. The expanded query is the maximum in each dimension over the means that are most similar to the query.
    3. The images are ranked by the mean of two dot products of their means: with the query, and with the expanded
       query.

    Later images keep their order. The time per query grows with the square of `candidates`.

    Args:
        candidates: Integer. Number of first images that are ranked again, the paper's M. Defaults to `400`.
        k: Integer. Number of neighbors of an image, without the image itself. The maximum is over `k + 1` means.
            Defaults to `9`.
        beta: Float. Weight of neighbors. If 0, images are not refined. Defaults to `0.15`.
    """

    candidates: Count = 400
    k: Count = 9
    beta: NotNegative = 0.15

    def ranks_of_points(self, points, task, first_only):
        return ranks_of_similarities(self._blocks(points, task), task, first_only=first_only)

    def _blocks(self, points, task):
        """Yields rows of queries with their similarities to the gallery."""
        gallery = points[task.gallery]
        # No score is below minus this number, and no cosine is above 1.
        above = 2.0 + (self.k + 1) ** 0.5
        size = max(1, MEMORY // (8 * max(len(gallery), 1)))
        for start in range(0, len(task.queries), size):
            queries = task.queries[start : start + size]
            similarities = (points[queries] @ gallery.T).astype(np.float64)
            for query, row in zip(queries, similarities, strict=True):
                others = np.flatnonzero(task.gallery != query)
                first = others[np.argsort(-row[others], kind="stable")[: self.candidates]]
                if len(first):
                    row[first] = above + self._scores(points[query], gallery[first])
            yield queries, similarities

    def _scores(self, query, near):
        """Returns the scores `[M]` of a query's first images `[M, d]`."""
        similarities, count = near @ near.T, len(near)
        np.fill_diagonal(similarities, -np.inf)
        few = min(self.k, count - 1)
        neighbors = np.argpartition(similarities, count - 1 - few, axis=1)[:, count - few :]
        weights = np.eye(count, dtype=near.dtype)
        of_neighbors = self.beta * np.maximum(np.take_along_axis(similarities, neighbors, axis=1), 0.0)
        np.put_along_axis(weights, neighbors, of_neighbors, axis=1)
        means = weights @ near / weights.sum(axis=1, keepdims=True)
        scores = means @ query
        expanded = means[np.argsort(-scores, kind="stable")[: self.k + 1]].max(axis=0)
        return (scores + means @ expanded) / 2.0

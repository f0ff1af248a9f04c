"""`EmbeddingReranking`: ranks by the similarity of other embeddings."""

import numpy as np

from tfdml.evaluation.ranks.positive_ranks import positive_ranks
from tfdml.evaluation.rerankings.reranking import Reranking
from tfdml.evaluation.search import RetrievalTask


class EmbeddingReranking(Reranking):
    """Ranks the gallery by cosine similarity, of other embeddings than those given."""

    def sides(self, points: np.ndarray, task: RetrievalTask) -> tuple[np.ndarray, np.ndarray]:
        """Returns the embeddings `[N, d]` whose rows are searched for, and those `[N, d]` that are searched.

        Args:
            points: `[N, d]` float32 array at unit length.
            task: `RetrievalTask` among its rows.
        """
        raise NotImplementedError

    def ranks_of_points(self, points, task, first_only):
        queries, gallery = self.sides(points, task)
        return positive_ranks(gallery, task, query_embeddings=queries, first_only=first_only)

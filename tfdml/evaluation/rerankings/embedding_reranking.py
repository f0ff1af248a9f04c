"""`EmbeddingReranking`: ranks by the similarity of other embeddings."""

import numpy as np

from tfdml.evaluation.ranks.positive_ranks import positive_ranks
from tfdml.evaluation.rerankings.reranking import Reranking
from tfdml.evaluation.search import Search


class EmbeddingReranking(Reranking):
    """Ranks the gallery by cosine similarity, of other embeddings than those given."""

    def sides(self, points: np.ndarray, search: Search) -> tuple[np.ndarray, np.ndarray]:
        """Returns the embeddings `[N, d]` whose rows are searched for, and those `[N, d]` that are searched.

        Args:
            points: `[N, d]` float32 array at unit length.
            search: `Search` among its rows.
        """
        raise NotImplementedError

    def ranks_of_points(self, points, search, first_only):
        queries, gallery = self.sides(points, search)
        return positive_ranks(gallery, search, query_embeddings=queries, first_only=first_only)

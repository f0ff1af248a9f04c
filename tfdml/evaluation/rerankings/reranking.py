"""`Reranking`: what rerankings have in common."""

import numpy as np

from tfdml.clustering import check_finite
from tfdml.evaluation.metrics.unit_length import unit_length
from tfdml.evaluation.positive_ranks import positive_ranks


class Reranking:
    """Ranks the gallery by cosine similarity, of other embeddings than those given."""

    def sides(self, points, search):
        """Returns the embeddings `[N, d]` whose rows are searched for, and those `[N, d]` that are searched.

        Args:
            points: `[N, d]` float32 array at unit length.
            search: `Search` among its rows.
        """
        raise NotImplementedError

    def ranks(self, embeddings, search, *, first_only=False):
        """Yields `PositiveRanks` of blocks of queries; arguments as of `positive_ranks`."""
        check_finite(embeddings)
        queries, gallery = self.sides(unit_length(np.asarray(embeddings, np.float32)), search)
        return positive_ranks(gallery, search, query_embeddings=queries, first_only=first_only)

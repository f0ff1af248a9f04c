"""`Reranking`: what rerankings have in common."""

from collections.abc import Iterator

import numpy as np

from tfdml.evaluation.ranks.ranks import PositiveRanks
from tfdml.evaluation.search import RetrievalTask
from tfdml.neighbors.clustering import check_finite
from tfdml.neighbors.nearest import unit_length
from tfdml.registry.arguments import Embeddings
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
        """The same for equal rerankings."""
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

"""`ApproximateIndex`: what indexes have in common that find only the nearest images, and not always all of them."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from tfdml.evaluation.indexes.index import Index
from tfdml.evaluation.indexes.index_search import IndexSearch
from tfdml.evaluation.metrics import RankMetric


class ApproximateIndex(Index):
    """Searches the gallery by an index of faiss."""

    is_approximate = True

    def check(self, metrics):
        deep = [each.name for each in metrics if isinstance(each, RankMetric) and np.isinf(each.depth(1))]
        if deep:
            raise ValueError(
                f"The metric {', '.join(deep)} needs the ranks of all positives, and index={str(self)!r} finds only "
                "the nearest images. Choose other metrics, such as recall_at_1, precision_at_10, r_precision or "
                "map_at_r, or index='exact'."
            )

    def searched(self, embeddings, task, metrics, distance):
        self.check(metrics)
        return IndexSearch(self, embeddings, task, metrics, distance)

    def of_size(self, count: int) -> Self:
        """Returns the index for a gallery of that many images: with a number for each argument that is None."""
        raise NotImplementedError

    def create(self, dim: int, metric: int, sample: Callable[[int], np.ndarray]) -> Any:
        """Returns an index of faiss that is ready for vectors.

        Args:
            dim: their dimension.
            metric: `faiss.METRIC_INNER_PRODUCT` or `faiss.METRIC_L2`.
            sample: function from a number to at most that many random vectors of the gallery.
        """
        raise NotImplementedError

"""Neighbors kept between views."""

import numpy as np

from tfdml.evaluation.metrics.embedding_metric import EmbeddingMetric
from tfdml.neighbors.nearest import nearest_others
from tfdml.registry import register
from tfdml.registry.arguments import Count


@register("metric", "neighbors_kept")
class NeighborsKept(EmbeddingMetric):
    """The fraction of an image's K nearest among other images that are still so where all are seen in another view.

    It needs no classes: labels say which two rows are views of an image, as those of the dataset `photos` do. None
    where other numbers of rows have a label, or there are only two images. A collapsed embedding has a value near 0:
    ties are broken by row, from the first one on in one view, and from the last one in the other.

    Args:
        k: number of neighbors; of fewer than 2 K images, a third of them.
    """

    k: Count = 10

    larger_is_better = True
    needs_classes = False

    def value(self, embeddings, labels):
        order = np.argsort(labels, kind="stable")
        counts = np.unique(labels, return_counts=True)[1]
        if len(counts) < 3 or np.any(counts != 2):
            return None
        first, second = (embeddings[order[place::2]] for place in (0, 1))
        k = min(self.k, max(1, len(first) // 3)) if len(first) < 2 * self.k else self.k
        rows = np.arange(len(first))
        before = nearest_others(first, rows, rows, k)
        after = rows[::-1][nearest_others(second[::-1], rows, rows, k)[::-1]]
        return float(np.mean([np.isin(one, other).mean() for one, other in zip(before, after, strict=True)]))

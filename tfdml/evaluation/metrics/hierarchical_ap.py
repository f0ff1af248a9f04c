"""Hierarchical average precision."""

import numpy as np

from tfdml.evaluation.metrics.embedding_metric import EmbeddingMetric
from tfdml.evaluation.metrics.graded_relevance import grades_in_order, levels_of, mean_over_queries
from tfdml.registry import register
from tfdml.registry.arguments import Positive


@register("metric", "hierarchical_ap")
class HierarchicalAP(EmbeddingMetric):
    """The mean over queries of average precision in which a mistake costs less the more levels both images share.

    H-AP of Ramzi et al., Hierarchical Average Precision Training for Pertinent Image Retrieval, 2022:
    `sum_k h(k) / rank(k) / sum_k rel(k)` over the images k that share a level with the query, where h(k) is rel(k) plus
    the sum of `min(rel(k), rel(j))` over those j before k, and `rel = (l / L)^alpha / n_l` for the n_l images that
    share l of L levels. With one level it is average precision. None if no image shares a level with another.

    Args:
        alpha: larger makes what shares few levels count less.
    """

    alpha: Positive = 1.0

    graded = True
    larger_is_better = True
    # It sorts all images for each query.
    while_training = False

    def value(self, embeddings, labels):
        count = levels_of(labels).shape[1]
        grades = (np.arange(count + 1) / count) ** self.alpha
        found = [self._of_queries(shared, grades) for shared in grades_in_order(embeddings, labels)]
        return mean_over_queries(found)

    def _of_queries(self, shared, grades):
        """The values of the queries of a block that have a positive."""
        counts = np.stack([np.sum(shared == level, axis=1) for level in range(len(grades))], axis=1)
        relevance = grades / np.maximum(counts, 1)
        of_images = np.take_along_axis(relevance, shared, axis=1)
        total = np.zeros(of_images.shape)
        for level in range(1, len(grades)):
            # Of so many at or before each place.
            before = np.cumsum(shared == level, axis=1)
            total += before * np.minimum(of_images, relevance[:, level, None])
        ranks = np.arange(1, shared.shape[1] + 1)
        has = of_images.sum(axis=1) > 0
        return np.sum(np.where(shared > 0, total / ranks, 0.0), axis=1)[has] / of_images.sum(axis=1)[has]

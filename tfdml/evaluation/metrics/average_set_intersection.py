"""Average set intersection."""

import numpy as np

from tfdml.evaluation.metrics.embedding_metric import EmbeddingMetric
from tfdml.evaluation.metrics.graded_relevance import grades_in_order, levels_of, mean_over_queries
from tfdml.registry import register


@register("metric", "average_set_intersection")
class AverageSetIntersection(EmbeddingMetric):
    """The mean over queries of how much the n nearest have in common with the n best, over all n.

    ASI of Sun et al., Dynamic Metric Learning: Towards a Scalable Metric Space to Accommodate Multiple Semantic Scales,
    2021: `mean_n |nearest_n & best_n| / n`, for n up to the number of images that share a level with the query. The
    best share most levels with it; of images that share equally many, those count that are among the nearest. None if
    no image shares a level with another.
    """

    graded = True
    larger_is_better = True
    # It sorts all images for each query.
    while_training = False

    def value(self, embeddings, labels):
        count = levels_of(labels).shape[1]
        found = [_of_queries(shared, count) for shared in grades_in_order(embeddings, labels)]
        return mean_over_queries(found)


def _of_queries(shared, count):
    """The values of the queries of a block that have a positive."""
    best = -np.sort(-shared, axis=1)
    ranks, common = np.arange(1, shared.shape[1] + 1), np.zeros(shared.shape)
    for level in range(1, count + 1):
        higher, equal = np.cumsum(shared > level, axis=1), np.cumsum(shared == level, axis=1)
        # So many places of the best are left for this level.
        common = np.where(best == level, higher + np.minimum(equal, ranks - higher[:, -1:]), common)
    positives = np.sum(best > 0, axis=1)
    has = positives > 0
    return np.sum(common / ranks, axis=1)[has] / positives[has]

"""Normalized discounted cumulative gain."""

import numpy as np

from tfdml.evaluation.metrics.embedding_metric import EmbeddingMetric
from tfdml.evaluation.metrics.graded_relevance import grades_in_order, mean_over_queries
from tfdml.registry import register


@register("metric", "ndcg")
class NDCG(EmbeddingMetric):
    """The mean over queries of the gain of all images in their order, divided by that of the best order.

    An image that shares l levels with the query, or l of several labels as a fraction of those that one of them has,
    gains `2^l - 1`, divided by `log2(1 + rank)`: Järvelin and Kekäläinen,
    Cumulated Gain-Based Evaluation of IR Techniques, 2002, with the gain of Burges et al., 2005. None if no image
    shares anything with another.
    """

    graded = True
    takes_several = True
    larger_is_better = True
    # It sorts all images for each query.
    while_training = False

    def value(self, embeddings, labels):
        values = []
        for shared in grades_in_order(embeddings, labels):
            gains = 2.0**shared - 1
            discounts = 1 / np.log2(np.arange(2, shared.shape[1] + 2))
            best = -np.sort(-gains, axis=1) @ discounts
            values.append((gains @ discounts)[best > 0] / best[best > 0])
        return mean_over_queries(values)

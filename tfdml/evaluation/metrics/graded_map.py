"""Mean average precision with graded relevance."""

import numpy as np

from tfdml.evaluation.metrics.embedding_metric import EmbeddingMetric
from tfdml.evaluation.metrics.graded_relevance import full_grade, grades_in_order, mean_over_queries
from tfdml.registry import register


@register("metric", "graded_map")
class GradedMAP(EmbeddingMetric):
    """The mean over queries of average precision in which each image counts by its relevance, 1 for the best order.

    `sum_k (r_1 + ... + r_k) / k` over the images k with a relevance r above 0, in the order of their similarity,
    divided by its value in the best order: weighted average precision of Zhao et al., Deep Semantic Ranking Based
    Hashing for Multi-Label Image Retrieval, 2015, normalized. r is the share of labels that both images have, or of
    levels. With one class an image it is average precision. None if no image has anything in common with another.
    """

    graded = True
    takes_several = True
    larger_is_better = True
    # It sorts all images for each query.
    while_training = False

    def value(self, embeddings, labels):
        full, values = full_grade(labels), []
        for found in grades_in_order(embeddings, labels):
            relevance = found[np.any(found > 0, axis=1)] / full
            values.append(_precision(relevance) / _precision(-np.sort(-relevance, axis=1)))
        return mean_over_queries(values)


def _precision(relevance):
    ranks = np.arange(1, relevance.shape[1] + 1)
    return np.sum(np.where(relevance > 0, np.cumsum(relevance, axis=1) / ranks, 0.0), axis=1)

"""Mean distance within classes."""

import numpy as np

from tfdml.evaluation.metrics.embedding_metric import EmbeddingMetric
from tfdml.evaluation.metrics.group_sizes import pairs_of
from tfdml.evaluation.metrics.pair_distances import squared_pair_distances
from tfdml.registry import register


@register("metric", "intra_class_distance")
class IntraClassDistance(EmbeddingMetric):
    """The mean Euclidean distance of pairs of the same class.

    From "Revisiting Training Strategies and Generalization Performance in Deep Metric Learning" (ICML 2020). None if
    each class has one image.
    """

    def value(self, embeddings, labels):
        pairs = pairs_of(np.unique(labels, return_counts=True)[1])
        total = sum(np.sqrt(squared).sum() for squared in squared_pair_distances(embeddings, labels))
        return float(total / pairs) if pairs else None

"""Mean distance between classes."""

import numpy as np

from tfdml.evaluation.metrics.class_means import class_means
from tfdml.evaluation.metrics.embedding_metric import EmbeddingMetric
from tfdml.evaluation.metrics.group_sizes import pairs_of
from tfdml.evaluation.metrics.pair_distances import squared_pair_distances
from tfdml.registry import register


@register("metric", "inter_class_distance")
class InterClassDistance(EmbeddingMetric):
    """The mean Euclidean distance of the mean embeddings of two classes.

    From "Revisiting Training Strategies and Generalization Performance in Deep Metric Learning" (ICML 2020). None if
    there is one class.
    """

    def value(self, embeddings, labels):
        means, _, _ = class_means(embeddings, labels)
        total = sum(np.sqrt(squared).sum() for squared in squared_pair_distances(means))
        return float(total / pairs_of([len(means)])) if len(means) > 1 else None

"""Purity."""

import numpy as np

from tfdml.evaluation.metrics.cluster_metric import ClusterMetric
from tfdml.registry import register


@register("metric", "purity")
class Purity(ClusterMetric):
    """The fraction of images that belong to the most frequent class of their cluster."""

    def value(self, labels, clusters):
        pairs, sizes = np.unique(np.stack([clusters, labels], axis=1), axis=0, return_counts=True)
        first = np.unique(pairs[:, 0], return_index=True)[1]
        return float(np.maximum.reduceat(sizes, first).sum() / len(labels))

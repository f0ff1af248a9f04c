"""Normalized mutual information."""

import numpy as np

from tfdml.evaluation.metrics.cluster_metric import ClusterMetric
from tfdml.registry import register


@register("metric", "nmi")
class NMI(ClusterMetric):
    """The mutual information of classes and clusters over the mean of their entropies, 2 I / (H + H)."""

    def value(self, labels, clusters):
        pairs = np.stack([labels, clusters], axis=1)
        of_labels, of_clusters, of_both = map(_entropy, (labels, clusters, pairs))
        if of_labels + of_clusters == 0:
            # One class and one cluster agree.
            return 1.0
        return float(max(2 * (of_labels + of_clusters - of_both) / (of_labels + of_clusters), 0.0))


def _entropy(values):
    """Returns the entropy of how often each row occurs."""
    _, counts = np.unique(values, axis=0, return_counts=True)
    shares = counts / counts.sum()
    return max(-np.sum(shares * np.log(shares)), 0.0)

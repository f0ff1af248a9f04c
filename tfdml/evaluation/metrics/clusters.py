"""Metrics of clusters: NMI, AMI, ARI, purity, and F1 of pairs."""

import numpy as np

from tfdml.evaluation.metrics.base import ClusterMetric, group_sizes, pairs_of
from tfdml.registry import register


@register("metric", "ami")
class AMI(ClusterMetric):
    """The mutual information of classes and clusters, corrected for chance: 0 on average for random clusters."""

    def value(self, labels, clusters):
        # Imported here because it is slow to load.
        from sklearn.metrics import adjusted_mutual_info_score

        return float(adjusted_mutual_info_score(labels, clusters))


@register("metric", "ari")
class ARI(ClusterMetric):
    """The fraction of pairs of images on which classes and clusters agree, corrected for chance."""

    def value(self, labels, clusters):
        # Imported here because it is slow to load.
        from sklearn.metrics import adjusted_rand_score

        return float(adjusted_rand_score(labels, clusters))


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


@register("metric", "purity")
class Purity(ClusterMetric):
    """The fraction of images that belong to the most frequent class of their cluster."""

    def value(self, labels, clusters):
        pairs, sizes = np.unique(np.stack([clusters, labels], axis=1), axis=0, return_counts=True)
        first = np.unique(pairs[:, 0], return_index=True)[1]
        return float(np.maximum.reduceat(sizes, first).sum() / len(labels))


@register("metric", "f1")
class PairwiseF1(ClusterMetric):
    """The harmonic mean of precision and recall of pairs of images: a pair is found if it shares a cluster.

    From "Deep Metric Learning via Lifted Structured Feature Embedding" (CVPR 2016), section 6.
    """

    def value(self, labels, clusters):
        both, classes, found = (pairs_of(sizes) for sizes in group_sizes(labels, clusters))
        return 2 * both / (classes + found) if both else 0.0

"""Normalized mutual information."""

from tfdml.evaluation.metrics.cluster_metric import ClusterMetric
from tfdml.registry import register


@register("metric", "nmi")
class NMI(ClusterMetric):
    """The mutual information of classes and clusters over the mean of their entropies, 2 I / (H + H)."""

    def value(self, labels, clusters):
        # Imported here because it is slow to load.
        from sklearn.metrics import normalized_mutual_info_score

        return float(normalized_mutual_info_score(labels, clusters))

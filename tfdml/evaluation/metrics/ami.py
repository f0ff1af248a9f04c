"""Adjusted mutual information."""

from tfdml.evaluation.metrics.cluster_metric import ClusterMetric
from tfdml.registry import register


@register("metric", "ami")
class AMI(ClusterMetric):
    """The mutual information of classes and clusters, corrected for chance: 0 on average for random clusters."""

    def value(self, labels, clusters):
        # Imported here because it is slow to load.
        from sklearn.metrics import adjusted_mutual_info_score

        return float(adjusted_mutual_info_score(labels, clusters))

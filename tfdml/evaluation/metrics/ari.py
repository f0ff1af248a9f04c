"""Adjusted Rand index."""

from tfdml.evaluation.metrics.cluster_metric import ClusterMetric
from tfdml.registry import register


@register("metric", "ari")
class ARI(ClusterMetric):
    """The fraction of pairs of images on which classes and clusters agree, corrected for chance."""

    def value(self, labels, clusters):
        # Imported here because it is slow to load.
        from sklearn.metrics import adjusted_rand_score

        return float(adjusted_rand_score(labels, clusters))

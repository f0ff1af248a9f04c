"""F1 of pairs."""

from tfdml.evaluation.metrics.cluster_metric import ClusterMetric
from tfdml.evaluation.metrics.group_sizes import group_sizes, pairs_of
from tfdml.registry import register


@register("metric", "f1")
class PairwiseF1(ClusterMetric):
    """The harmonic mean of precision and recall of pairs of images: a pair is found if it shares a cluster.

    From "Deep Metric Learning via Lifted Structured Feature Embedding" (CVPR 2016), section 6.
    """

    def value(self, labels, clusters):
        both, classes, found = (pairs_of(sizes) for sizes in group_sizes(labels, clusters))
        return 2 * both / (classes + found) if both else 0.0

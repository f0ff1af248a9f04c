"""`ClusterMetric`: agreement of classes and clusters."""

from tfdml.evaluation.metrics.metric import Metric


class ClusterMetric(Metric):
    """A metric of K-means with as many clusters as classes. Independent of the numbers that clusters have."""

    # Clustering takes longer than searching.
    while_training = False

    def value(self, labels, clusters):
        """Returns the metric.

        Args:
            labels: `[N]` class numbers.
            clusters: `[N]` cluster numbers.
        """
        raise NotImplementedError

"""`ClusterMetric`: agreement of classes and clusters."""

import numpy as np

from tfdml.evaluation.metrics.metric import Metric


class ClusterMetric(Metric):
    """A metric of K-means with as many clusters as classes. Independent of the numbers that clusters have."""

    # Clustering takes longer than searching.
    while_training = False

    def value(self, labels: np.ndarray, clusters: np.ndarray) -> float:
        """Returns the metric.

        Args:
            labels: `[N]` class numbers.
            clusters: `[N]` cluster numbers.
        """
        raise NotImplementedError

"""Hubness."""

import numpy as np

from tfdml.evaluation.metrics.embedding_metric import EmbeddingMetric
from tfdml.neighbors.nearest import nearest_others
from tfdml.registry import register
from tfdml.registry.arguments import Count


@register("metric", "hubness")
class Hubness(EmbeddingMetric):
    """The skewness of how often each image is among the K nearest of another: large if few are near everything.

    From "Hubs in Space: Popular Nearest Neighbors in High-Dimensional Data" (JMLR 2010). By Euclidean distance, which
    orders embeddings at unit length as cosine similarity does; ties are broken by row. None if each image is equally
    often near, as where there are only K others.

    Args:
        k: number of neighbors.
    """

    k: Count = 10

    # It searches all images in all others.
    while_training = False

    needs_classes = False

    def value(self, embeddings, labels):
        rows = np.arange(len(embeddings))
        times = np.bincount(nearest_others(embeddings, rows, rows, self.k).ravel(), minlength=len(rows))
        deviations = times - times.mean()
        return float(np.mean(deviations**3) / times.std() ** 3) if times.std() else None

"""Alignment."""

import numpy as np

from tfdml.evaluation.metrics.class_means import class_means
from tfdml.evaluation.metrics.embedding_metric import EmbeddingMetric
from tfdml.evaluation.metrics.group_sizes import pairs_of
from tfdml.neighbors.nearest import unit_length
from tfdml.registry import register

# Rows whose deviations from their class are computed at once.
ROWS = 8192


@register("metric", "alignment")
class Alignment(EmbeddingMetric):
    """The mean squared distance of pairs of the same class, of embeddings scaled to unit length.

    From "Understanding Contrastive Representation Learning through Alignment and Uniformity on the Hypersphere" (ICML
    2020), with alpha = 2. None if each class has one image.
    """

    needs_classes = False

    def value(self, embeddings, labels):
        embeddings = unit_length(embeddings)
        means, sizes, numbers = class_means(embeddings, labels)
        # The squared distances of a class's pairs sum to its size times the squared distances to its mean.
        total = 0.0
        for start in range(0, len(embeddings), ROWS):
            rows = slice(start, start + ROWS)
            deviations = embeddings[rows] - means[numbers[rows]]
            total += np.einsum("n,nd,nd->", sizes[numbers[rows]], deviations, deviations, optimize=True)
        pairs = pairs_of(sizes)
        return float(total / pairs) if pairs else None

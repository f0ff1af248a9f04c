"""Share of dead dimensions."""

from typing import Annotated

import numpy as np

from tfdml.evaluation.metrics.embedding_metric import EmbeddingMetric
from tfdml.registry import register
from tfdml.registry.arguments import number

# Rows whose deviations are computed at once.
ROWS = 8192


@register("metric", "dead_dimensions")
class DeadDimensions(EmbeddingMetric):
    """The share of dimensions whose variance is at most a fraction of the dimensions' mean variance.

    1 for a collapsed embedding.

    Args:
        fraction: of the mean variance.
    """

    fraction: Annotated[float, number(above=0, below=1)] = 1e-3

    needs_classes = False

    def value(self, embeddings, labels):
        blocks = [slice(start, start + ROWS) for start in range(0, len(embeddings), ROWS)]
        # From the first row, so that equal rows have a variance of exactly 0.
        origin = np.asarray(embeddings[0], np.float64)
        mean = sum(np.sum(embeddings[rows] - origin, axis=0) for rows in blocks) / len(embeddings)
        variances = sum(np.sum((embeddings[rows] - origin - mean) ** 2, axis=0) for rows in blocks)
        return float(np.mean(variances <= self.fraction * variances.mean()))

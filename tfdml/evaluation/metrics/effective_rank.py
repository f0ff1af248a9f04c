"""Effective rank."""

import numpy as np

from tfdml.evaluation.metrics.embedding_metric import EmbeddingMetric
from tfdml.registry import register

# Rows that are multiplied at once.
ROWS = 8192


@register("metric", "effective_rank")
class EffectiveRank(EmbeddingMetric):
    """The exponential of the entropy of the singular values, each divided by their sum: from 1 to the dimension.

    From "The Effective Rank: A Measure of Effective Dimensionality" (EUSIPCO 2007), of the matrix of embeddings as it
    is, not centred. None if all embeddings are zero.
    """

    needs_classes = False

    def value(self, embeddings, labels):
        # Both have the same singular values; the smaller product of the two has no zeros beside them.
        points = embeddings if len(embeddings) >= embeddings.shape[1] else embeddings.T
        blocks = (np.asarray(points[start : start + ROWS], np.float64) for start in range(0, len(points), ROWS))
        # Eigenvalues of this matrix are the squares of the singular values.
        squares = np.linalg.eigvalsh(sum(block.T @ block for block in blocks))
        # What is smaller is rounding, both of this product and of float32 embeddings.
        squares = squares[squares > len(squares) * np.finfo(np.float64).eps * squares.max()]
        if not len(squares):
            return None
        shares = np.sqrt(squares) / np.sum(np.sqrt(squares))
        return float(np.exp(-np.sum(shares * np.log(shares))))

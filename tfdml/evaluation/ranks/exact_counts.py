"""Counts negatives ahead of positives with products in float64, which are exact."""

import numpy as np

from tfdml.evaluation.ranks.counting import count_at_least


class ExactCounts:
    """Counts with exact similarities: whatever the embeddings, in a time that depends on their number alone.

    Args:
        vectors: `ExactVectors` of the gallery.
    """

    dtype = np.float64
    most_thresholds = np.inf

    def __init__(self, vectors):
        self.vectors = vectors

    def counter(self, block, members, tile, out):
        """Returns the function that counts; arguments as of `FloatCounts.counter`."""
        similarities = self.vectors.similarities(block.vectors, tile, out)

        def count(query):
            row = similarities[query]
            row[members[query]] = -np.inf
            return count_at_least(row, block.thresholds[query])

        return count

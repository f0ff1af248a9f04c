"""k-reciprocal re-ranking."""

import numpy as np

from tfdml.evaluation.metrics.pair_distances import squared_distances
from tfdml.evaluation.ranks.ranks_of_similarities import ranks_of_similarities
from tfdml.evaluation.rerankings.reciprocal_codes import reciprocal_codes
from tfdml.evaluation.rerankings.reranking import Reranking
from tfdml.registry import register
from tfdml.registry.arguments import Count, Share

# Bytes for one array of distances of a block of queries; a few such arrays exist at once.
MEMORY = 2**26


@register("reranking", "k_reciprocal")
class KReciprocal(Reranking):
    """Compares the sets of images that have each other among their nearest, and adds the distance.

    "Re-ranking Person Re-identification with k-reciprocal Encoding" (CVPR 2017), sections 3.2 to 3.5, as in its
    authors' code, among queries and gallery together. It differs from the article in three ways: the distance is the
    squared one divided by the row's largest, codes are divided by their sum, and a neighbor's set is added if more than
    two thirds of it are shared, not just two thirds.

    Args:
        k1: number of neighbors for reciprocal sets; half as many for those that are added (section 3.2).
        k2: number of rows, itself included, whose codes are averaged (section 3.4).
        weight: of the distance; the rest is that of the Jaccard distance of codes. The article's lambda.
    """

    k1: Count = 20
    k2: Count = 6
    weight: Share = 0.3

    def ranks_of_points(self, points, task, first_only):
        return ranks_of_similarities(self._blocks(points, task), task, first_only=first_only)

    def _blocks(self, points, task):
        """Yields rows of queries, and minus their distances to the gallery."""
        rows = np.union1d(task.queries, task.gallery)
        points = points[rows]
        codes, largest = reciprocal_codes(points, self.k1, self.k2)
        gallery = np.searchsorted(rows, task.gallery)
        columns = codes[gallery].tocsc()
        size = max(1, MEMORY // (8 * max(len(gallery), 1)))
        for start in range(0, len(task.queries), size):
            queries = task.queries[start : start + size]
            places = np.searchsorted(rows, queries)
            distances = squared_distances(points[places], points[gallery])
            distances /= largest[places, None]
            distances *= self.weight
            jaccard = np.stack([_jaccard(*_row(codes, place), columns) for place in places])
            jaccard *= 1 - self.weight
            jaccard += distances
            yield queries, np.negative(jaccard, out=jaccard)


def _row(matrix, place):
    """Returns the columns and values of a row of a sparse matrix."""
    # What scipy takes much longer for.
    row = slice(*matrix.indptr[place : place + 2])
    return matrix.indices[row], matrix.data[row]


def _jaccard(members, weights, columns):
    """Returns the Jaccard distances of a code to codes `[G, U]`, which all sum to 1 (section 3.3).

    Args:
        members, weights: `[S]` columns in which the code is not zero, and its values there.
        columns: sparse matrix of the codes, by column.
    """
    starts = columns.indptr[members]
    counts = columns.indptr[members + 1] - starts
    # Places of the columns in which the code is not zero, one column after the other.
    places = np.arange(counts.sum()) + np.repeat(starts - np.cumsum(counts) + counts, counts)
    smaller = np.minimum(np.repeat(weights, counts), columns.data[places])
    shared = np.bincount(columns.indices[places], smaller, minlength=columns.shape[0])
    return 1 - shared / (2 - shared)

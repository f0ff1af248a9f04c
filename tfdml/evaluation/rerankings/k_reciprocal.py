"""Re-ranking by k-reciprocal neighbors (Zhong et al. 2017)."""

import numpy as np

from tfdml.evaluation.metrics.pairs import squared_distances
from tfdml.evaluation.ranks.ranks import ranks_of_similarities
from tfdml.evaluation.rerankings.reranking import Reranking
from tfdml.neighbors.nearest import nearest_others
from tfdml.registry import register
from tfdml.registry.arguments import Count, Share

# Number of rows for which distances to all others are computed at once.
ROWS = 256
# Number of pairs for which distances are computed at once.
PAIRS = 16384


def reciprocal_codes(points, k1, k2):
    """Returns a sparse matrix `[N, N]` with one code per image, and each image's largest distance `[N]`."""
    rows = np.arange(len(points))
    # The image itself is the first of each row.
    nearest = np.concatenate([rows[:, None], nearest_others(points, rows, rows, max(k1, k2 - 1))], axis=1)
    blocks = [points[start : start + ROWS] for start in range(0, len(points), ROWS)]
    largest = np.concatenate([squared_distances(block, points).max(axis=1) for block in blocks])
    largest = np.where(largest > 0, largest, 1.0)
    sets, half = _reciprocal(nearest, k1), _reciprocal(nearest, round(k1 / 2))
    # Add the smaller set of each member if more than two thirds of it are already in the set (section 3.2).
    shared = (sets @ half.T).multiply(sets).tocsr()
    shared.data = (3 * shared.data > 2 * half.sum(axis=1)[shared.indices]).astype(np.float64)
    sets = (sets + shared @ half).tocsr()
    sets.eliminate_zeros()
    # Weight members by their distance (section 3.3), and normalize so that the weights sum to 1.
    owners = np.repeat(rows, np.diff(sets.indptr))
    for start in range(0, len(owners), PAIRS):
        pairs = slice(start, start + PAIRS)
        owner = owners[pairs]
        squared = np.sum((points[owner] - points[sets.indices[pairs]]) ** 2, axis=1, dtype=np.float64)
        sets.data[pairs] = np.exp(-squared / largest[owner])
    sets.data /= sets.sum(axis=1)[owners]
    # Means over the nearest rows (section 3.4).
    near = nearest[:, :k2]
    means = _sparse(near, np.full(near.shape, 1 / near.shape[1])) @ sets
    return means.tocsr(), largest


def _reciprocal(nearest, k):
    """Marks pairs of rows that are among each other's k nearest, and each row with itself."""
    near = _sparse(nearest[:, : k + 1], np.ones(nearest[:, : k + 1].shape))
    return near.multiply(near.T).tocsr()


def _sparse(columns, values):
    """Returns a sparse matrix `[N, N]` with the values `[N, k]` of row i in columns `[N, k]`."""
    # Imported here because it is slow to load.
    from scipy.sparse import csr_array

    count, width = columns.shape
    return csr_array((values.ravel(), columns.ravel(), np.arange(count + 1) * width), shape=(count, count))


# Bytes for one array of distances of a block of queries; a few such arrays exist at once.
MEMORY = 2**26


@register("reranking", "k_reciprocal")
class KReciprocal(Reranking):
    """Re-ranks images by how many k-reciprocal neighbors they share with the query, combined with their distance.

    "Re-ranking Person Re-identification with k-reciprocal Encoding" (CVPR 2017), sections 3.2 to 3.5, as in its
    authors' code, applied to queries and gallery together. The code differs from the paper in three ways: the distance
    is squared and divided by the row's largest, codes are divided by their sum, and a neighbor's set is added only if
    more than two thirds of it are shared.

    Args:
        k1: Integer. Number of neighbors for reciprocal sets. The sets that are added to them use half as many (section
            3.2). Defaults to `20`.
        k2: Integer. Number of rows, including the row itself, over which codes are averaged (section 3.4). Defaults to
            `6`.
        weight: Float between 0 and 1. Weight of the distance, the paper's lambda. The Jaccard distance of codes has the
            remaining weight. Defaults to `0.3`.
    """

    k1: Count = 20
    k2: Count = 6
    weight: Share = 0.3

    def ranks_of_points(self, points, task, first_only):
        return ranks_of_similarities(self._blocks(points, task), task, first_only=first_only)

    def _blocks(self, points, task):
        """Yields rows of queries with minus their distances to the gallery."""
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
            jaccard = np.stack([_jaccard(codes, place, columns) for place in places])
            jaccard *= 1 - self.weight
            jaccard += distances
            yield queries, np.negative(jaccard, out=jaccard)


def _jaccard(codes, place, columns):
    """Returns the Jaccard distances of one code to all `[G, U]`. Each code sums to 1 (section 3.3)."""
    # The nonzero entries of the row, read directly because scipy's indexing is much slower.
    row = slice(*codes.indptr[place : place + 2])
    members, weights = codes.indices[row], codes.data[row]
    starts = columns.indptr[members]
    counts = columns.indptr[members + 1] - starts
    # Positions of the entries of these columns, one column after the other.
    places = np.arange(counts.sum()) + np.repeat(starts - np.cumsum(counts) + counts, counts)
    smaller = np.minimum(np.repeat(weights, counts), columns.data[places])
    shared = np.bincount(columns.indices[places], smaller, minlength=columns.shape[0])
    return 1 - shared / (2 - shared)

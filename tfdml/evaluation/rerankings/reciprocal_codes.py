"""Codes of images by the images that have each other among their nearest."""

import numpy as np

from tfdml.evaluation.metrics.pair_distances import squared_distances
from tfdml.neighbors.nearest import nearest_others

# Rows whose distances to all are computed at once.
ROWS = 256
# Pairs whose distances are computed at once.
PAIRS = 16384


def reciprocal_codes(points, k1, k2):
    """Returns a sparse matrix `[N, N]`, each row the code of an image, and each image's largest distance `[N]`.

    Args:
        points: `[N, d]` array.
        k1, k2: see `KReciprocal`.
    """
    rows = np.arange(len(points))
    # Each row begins with the image itself.
    nearest = np.concatenate([rows[:, None], nearest_others(points, rows, rows, max(k1, k2 - 1))], axis=1)
    largest = _largest_distances(points)
    sets = _expanded(_reciprocal(nearest, k1), _reciprocal(nearest, round(k1 / 2)))
    return _averaged(_weighted(sets, points, largest), nearest[:, :k2]), largest


def _largest_distances(points):
    blocks = [points[start : start + ROWS] for start in range(0, len(points), ROWS)]
    largest = np.concatenate([squared_distances(block, points).max(axis=1) for block in blocks])
    return np.where(largest > 0, largest, 1.0)


def _reciprocal(nearest, k):
    """Marks the pairs of rows that have each other among their k nearest, and each row with itself."""
    near = _sparse(nearest[:, : k + 1], np.ones(nearest[:, : k + 1].shape))
    return near.multiply(near.T).tocsr()


def _expanded(sets, half):
    """Adds the smaller sets of a set's members, if more than two thirds of such a set are in it (section 3.2)."""
    shared = (sets @ half.T).multiply(sets).tocsr()
    sizes = half.sum(axis=1)
    shared.data = (3 * shared.data > 2 * sizes[shared.indices]).astype(np.float64)
    return (sets + shared @ half).tocsr()


def _weighted(sets, points, largest):
    """Weighs the members of each set by their distance (section 3.3), so that they sum to 1."""
    sets.eliminate_zeros()
    owners = np.repeat(np.arange(len(points)), np.diff(sets.indptr))
    for start in range(0, len(owners), PAIRS):
        pairs = slice(start, start + PAIRS)
        owner = owners[pairs]
        squared = np.sum((points[owner] - points[sets.indices[pairs]]) ** 2, axis=1, dtype=np.float64)
        sets.data[pairs] = np.exp(-squared / largest[owner])
    sets.data /= sets.sum(axis=1)[owners]
    return sets


def _averaged(codes, nearest):
    """Averages codes over the nearest rows (section 3.4)."""
    return (_sparse(nearest, np.full(nearest.shape, 1 / nearest.shape[1])) @ codes).tocsr()


def _sparse(columns, values):
    """Returns a sparse matrix `[N, N]` that has in row i the values `[N, k]` at columns `[N, k]`."""
    # Imported here because it is slow to load.
    from scipy.sparse import csr_array

    count, width = columns.shape
    return csr_array((values.ravel(), columns.ravel(), np.arange(count + 1) * width), shape=(count, count))

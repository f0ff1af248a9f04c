"""Steps of random walks on the graph of images: products with S̄ of equation (9) of EDMS."""

import numpy as np

from tfdml.neighbors.nearest import nearest_others

# Bytes for the affinities that are computed at once.
MEMORY = 2**27


def steps_to_all(points):
    """Returns the function that multiplies `[N, B]` by S̄, where all images are connected.

    It computes affinities anew in each call, in blocks.

    Args:
        points: `[N, d]` array of rows of unit length, or zeros.
    """
    points = points.astype(np.float64)
    size = max(1, MEMORY // (8 * len(points)))
    starts = range(0, len(points), size)

    def affinities(start):
        found = points[start : start + size] @ points.T
        np.maximum(found, 0.0, out=found)
        places = np.arange(len(found))
        found[places, start + places] = 0.0
        return found

    scale = _scale(points, np.concatenate([affinities(start).sum(axis=1) for start in starts]))

    def step(values):
        values = values * scale
        stepped = np.concatenate([affinities(start) @ values for start in starts])
        stepped *= scale
        return stepped

    return step


def steps_to_neighbors(points, k):
    """Returns the function that multiplies `[N, B]` by S̄, where an image is connected to its k nearest, and they to it.

    Args:
        points: `[N, d]` array of rows of unit length, or zeros.
        k: number of neighbors.
    """
    # Imported here because it is slow to load.
    from scipy.sparse import csr_array

    rows = np.arange(len(points))
    neighbors = nearest_others(points, rows, rows, k)
    values = np.stack([_cosines(points, near) for near in neighbors.T], axis=1)
    starts = np.arange(len(points) + 1) * neighbors.shape[1]
    near = csr_array((np.maximum(values, 0.0).ravel(), neighbors.ravel(), starts), shape=(len(points), len(points)))
    near = near.maximum(near.T).tocsr()
    scale = _scale(points, near.sum(axis=1))
    return (near * scale * scale.T).tocsr().dot


def _cosines(points, others):
    """Returns the cosines `[N]` of each row to another one."""
    return np.einsum("nd,nd->n", points, points[others], dtype=np.float64)


def _scale(points, sums):
    """Returns D^-1/2 `[N, 1]` for sums `[N]` of affinities to others; an image's affinity to itself counts, too."""
    degrees = sums + _cosines(points, np.arange(len(points)))
    return np.where(degrees > 0.0, 1.0 / np.sqrt(np.where(degrees > 0.0, degrees, 1.0)), 0.0)[:, None]

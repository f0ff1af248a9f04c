"""Random walks on the graph of test images, the manifold similarity of EDMS."""

import math
from typing import Annotated

import numpy as np

from tfdml.evaluation.ranks.ranks import ranks_of_similarities
from tfdml.evaluation.rerankings.reranking import Reranking
from tfdml.neighbors.nearest import nearest_others
from tfdml.registry import register
from tfdml.registry.arguments import Count, number

# Bytes for the affinities that are computed at once.
MEMORY = 2**27


def steps_to_all(points):
    """Returns the function that multiplies `[N, B]` by S̄ if all images are connected.

    Each call computes the affinities again, in blocks. Points are L2-normalized or zero.
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
    """Returns the function that multiplies `[N, B]` by S̄ if an image is connected with its k nearest."""
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
    """Returns the cosine `[N]` of each row to another row."""
    return np.einsum("nd,nd->n", points, points[others], dtype=np.float64)


def _scale(points, sums):
    """Returns D^-1/2 `[N, 1]` for sums `[N]` of affinities to others. Affinities of images to themselves are added."""
    degrees = sums + _cosines(points, np.arange(len(points)))
    return np.where(degrees > 0.0, 1.0 / np.sqrt(np.where(degrees > 0.0, degrees, 1.0)), 0.0)[:, None]


# Largest relative error of a query's walks. It is far below a tie.
ERROR = 1e-9


@register("reranking", "random_walk")
class RandomWalk(Reranking):
    """Ranks images by where random walks from the query end, which measures similarity along the manifold.

    Equation (9) of EDMS, `F = (1 - α) (I - α S̄)^-1`, on queries and gallery together instead of batch and proxies. The
    affinity is `clipped`; see `tfdml.functional.manifold.random_walk`. The paper itself tests with dot products.

    The paper solves a system with one unknown per image. This class solves it for a block of queries at once, by
    Chebyshev iteration, which uses the walk's own steps and needs no `[N, N]` matrix. The error is at most 1e-9. With
    `k`, which (9) does not have, the graph is sparse, and the time grows with N² k. If `k` is `None`, all images are
    connected, exactly as in (9), and the time grows with N³.

    Args:
        k: Integer or `None`. Number of neighbors. Two images are connected if one of them is among the k nearest of the
            other. If `None`, all images are connected. Defaults to `50`.
        restart: Float between 0 and 1. The factor α. With a larger value, walks reach farther. Defaults to `0.8`.
    """

    k: Count | None = 50
    restart: Annotated[float, number(above=0, below=1)] = 0.8

    def ranks_of_points(self, points, task, first_only):
        return ranks_of_similarities(self._blocks(points, task), task, first_only=first_only)

    def _blocks(self, points, task):
        """Yields rows of queries with their similarities to the gallery, as fractions of the largest."""
        rows = np.union1d(task.queries, task.gallery)
        points = points[rows]
        step = steps_to_all(points) if self.k is None else steps_to_neighbors(points, self.k)
        gallery = np.searchsorted(rows, task.gallery)
        # `_walked` holds four arrays of this size.
        size = max(1, MEMORY // (4 * 8 * len(rows)))
        for start in range(0, len(task.queries), size):
            queries = task.queries[start : start + size]
            columns = np.arange(len(queries)), np.searchsorted(rows, queries)
            starts = np.zeros((len(rows), len(queries)))
            starts[columns[::-1]] = 1.0
            reached = _walked(step, step(starts), self.restart).T
            # How often a walk returns to the query contains no information about other images.
            reached[columns] = 0.0
            reached = reached[:, gallery]
            largest = reached.max(axis=1, keepdims=True)
            yield queries, reached / np.where(largest > 0.0, largest, 1.0)


def _walked(step, starts, restart):
    """Solves `(I - α S̄) x = starts` by Chebyshev iteration.

    The eigenvalues of S̄ are between -1 and 1, so the number of steps is known in advance and the same for all starts.
    Since F = (1 - α) (I + α x) for starts S̄, x is on the scale of the walks, while F is mostly its identity.
    """
    steps = math.ceil(math.acosh(1.0 / ERROR) / math.acosh(1.0 / restart))
    before, now, weight = np.zeros_like(starts), starts, 2.0
    for _ in range(steps - 1):
        weight = 1.0 / (1.0 - restart**2 * weight / 4.0)
        # weight * (restart * step(now) + starts - before) + before
        after = step(now)
        after *= restart
        after += starts
        after -= before
        after *= weight
        after += before
        before, now = now, after
    return now

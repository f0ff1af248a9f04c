"""Embeddings mixed with those of their neighbors."""

import numpy as np

from tfdml.neighbors.nearest import unit_length

# Rows that are mixed at once.
ROWS = 1024


def mixed(points, rows, neighbors, alpha):
    """Returns a copy of points `[N, d]` where some rows are the sum of themselves and their neighbors, at unit length.

    A neighbor's weight is its cosine similarity to the power of alpha; a negative similarity counts as 0.

    Args:
        points: `[N, d]` array at unit length.
        rows: `[Q]` rows that change.
        neighbors: `[Q, k]` rows of the neighbors of each.
        alpha: a number of 0 or more; at 0, each weight is 1.
    """
    changed = points.copy()
    for start in range(0, len(rows), ROWS):
        some = rows[start : start + ROWS]
        near = points[neighbors[start : start + ROWS]]
        weights = np.maximum(np.einsum("nd,nkd->nk", points[some], near), 0.0) ** alpha
        changed[some] = unit_length(points[some] + np.einsum("nk,nkd->nd", weights, near))
    return changed

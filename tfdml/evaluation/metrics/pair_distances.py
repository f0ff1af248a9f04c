"""Squared distances of pairs, in blocks."""

import numpy as np

# Rows that are compared with others at once.
ROWS = 256


def squared_pair_distances(points, labels=None):
    """Yields the squared distances of pairs of the same class, each pair once, in blocks `[P]` of float64.

    Args:
        points: `[N, d]` array.
        labels: `[N]` class numbers; None for all pairs.
    """
    labels = np.zeros(len(points)) if labels is None else np.asarray(labels)
    order = np.argsort(labels, kind="stable")
    points, labels = np.asarray(points)[order], labels[order]
    ends = np.searchsorted(labels, labels, side="right")
    for start in range(0, len(points), ROWS):
        rows = slice(start, min(start + ROWS, len(points)))
        # Up to the end of the last row's class; earlier rows have had their turn.
        others = slice(start, ends[rows.stop - 1])
        pairs = np.triu(labels[rows, None] == labels[others], 1)
        if pairs.any():
            # From the first row, so that equal rows have a distance of exactly 0 where all are equal.
            origin = np.asarray(points[0], np.float64)
            yield squared_distances(points[rows] - origin, points[others] - origin)[pairs]


def squared_distances(points, others):
    """Returns squared distances `[A, B]` of points `[A, d]` and others `[B, d]`, in float64."""
    points, others = np.asarray(points, np.float64), np.asarray(others, np.float64)
    found = np.add.outer(*(np.einsum("nd,nd->n", each, each) for each in (points, others)))
    # In place, because these can be large.
    products = points @ others.T
    products *= 2
    found -= products
    return np.maximum(found, 0.0, out=found)

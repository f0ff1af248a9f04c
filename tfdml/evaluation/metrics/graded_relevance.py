"""The grades of all images for a query, by shared levels or labels, in the order of their similarity."""

import numpy as np

from tfdml.neighbors.nearest import nearest_others

# Numbers of a block.
BLOCK = 2**22


def levels_of(labels):
    """Returns categories `[N, L]`, from coarse to fine, of labels `[N, L]`, or `[N]`, which are one level."""
    labels = np.asarray(labels)
    return labels[:, None] if labels.ndim == 1 else labels


def full_grade(labels):
    """The grade of images that have all in common: the number of levels, or 1 of several labels an image."""
    return 1 if np.asarray(labels).dtype == bool else levels_of(labels).shape[1]


def grades(labels, rows, others=None):
    """Returns what images have in common with others: the number of levels `[B, M]`, or the share of several labels.

    Args:
        labels: `[N, L]` categories from coarse to fine, which are a tree; `[N]` class numbers; or `[N, C]` booleans,
            several labels an image.
        rows: the B images.
        others: `[B, M]` rows of the others of each image; None: all images are.
    """
    levels = levels_of(labels)
    own, found = levels[rows], levels[None, :] if others is None else levels[others]
    if levels.dtype != bool:
        return np.sum(own[:, None] == found, axis=2)
    if others is None:
        both = own.astype(np.float32) @ levels.T.astype(np.float32)
    else:
        both = np.sum(own[:, None] & found, axis=2)
    either = own.sum(axis=1)[:, None] + found.sum(axis=2) - both
    return both / np.maximum(either, 1)


def grades_in_order(embeddings, labels):
    """Yields blocks `[B, N - 1]` of what each image has in common with the others, nearest first; see `grades`.

    By Euclidean distance, which orders embeddings at unit length as cosine similarity does. Of equally near images
    those that have less in common come first, so that a collapsed embedding scores low.

    Args:
        embeddings: `[N, d]` array.
        labels: as of `grades`.
    """
    points = np.asarray(embeddings, np.float32)
    # Around the mean, so that float32 tells distances apart where all embeddings are near each other.
    points = points - points.mean(axis=0, dtype=np.float64).astype(np.float32)
    half = np.einsum("nd,nd->n", points, points) / 2
    size = max(1, BLOCK // max(1, len(points)))
    for start in range(0, len(points), size):
        rows = slice(start, start + size)
        farness = half - points[rows] @ points.T
        shared = grades(labels, rows)
        own = np.arange(len(farness))
        farness[own, start + own] = np.inf
        # Itself behind all.
        shared[own, start + own] = full_grade(labels) + 1
        order = np.lexsort((shared, farness), axis=1)
        yield np.take_along_axis(shared, order, axis=1)[:, :-1]


def mean_over_queries(blocks):
    """Returns the mean of the values of all queries, which come in blocks; None if there is no query."""
    values = np.concatenate(blocks) if blocks else np.zeros(0)
    return float(np.mean(values)) if len(values) else None


def grades_of_nearest(embeddings, labels, k):
    """Returns `[N, k]` what each image has in common with the k nearest others, of fewer with all; see `grades`."""
    rows, labels = np.arange(len(embeddings)), np.asarray(labels)
    near = nearest_others(embeddings, rows, rows, min(k, len(rows) - 1))
    size = max(1, BLOCK // (near.shape[1] * labels[0].size))
    blocks = [slice(start, start + size) for start in range(0, len(rows), size)]
    return np.concatenate([grades(labels, block, near[block]) for block in blocks])

"""What each image shares with all others, in the order of their similarity."""

import numpy as np

# Numbers of a block.
BLOCK = 2**22


def levels_of(labels):
    """Returns categories `[N, L]`, from coarse to fine, of labels `[N, L]`, or `[N]`, which are one level."""
    labels = np.asarray(labels)
    return labels[:, None] if labels.ndim == 1 else labels


def shared_levels(embeddings, labels):
    """Yields blocks `[B, N - 1]` of the number of levels that each image shares with the others, nearest first.

    By Euclidean distance, which orders embeddings at unit length as cosine similarity does. Of equally near images
    those that share less come first, so that a collapsed embedding scores low.

    Args:
        embeddings: `[N, d]` array.
        labels: `[N, L]` categories from coarse to fine, which are a tree, or `[N]` class numbers.
    """
    levels, points = levels_of(labels), np.asarray(embeddings, np.float32)
    # Around the mean, so that float32 tells distances apart where all embeddings are near each other.
    points = points - points.mean(axis=0, dtype=np.float64).astype(np.float32)
    half = np.einsum("nd,nd->n", points, points) / 2
    size = max(1, BLOCK // max(1, len(points)))
    for start in range(0, len(points), size):
        rows = slice(start, start + size)
        farness = half - points[rows] @ points.T
        shared = np.sum(levels[rows][:, None] == levels[None, :], axis=2)
        own = np.arange(len(farness))
        farness[own, start + own] = np.inf
        # Itself behind all.
        shared[own, start + own] = levels.shape[1] + 1
        order = np.lexsort((shared, farness), axis=1)
        yield np.take_along_axis(shared, order, axis=1)[:, :-1]

"""The grades of all images for a query, by shared levels or labels, in the order of their similarity."""

import numpy as np

from tfdml.evaluation.ranks.exact_vectors import TIE, ExactVectors, tie_groups
from tfdml.neighbors.nearest import nearest_others

# Numbers of a block.
BLOCK = 2**22
# Images that are compared exactly in addition to the K nearest, to see whether others are as near.
SPARE = 8
# Squared lengths that differ from 1 by less belong to vectors at unit length.
UNIT = 1e-5


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

    By Euclidean distance, which orders embeddings at unit length as cosine similarity does. Of images that are equally
    near, up to a tie (`ExactVectors.ties`), those that have less in common come first, so that a collapsed embedding
    scores low.

    Args:
        embeddings: `[N, d]` array.
        labels: as of `grades`.
    """
    yield from _in_order(_exact(embeddings), labels, np.arange(len(embeddings)))


def _exact(embeddings):
    """Returns `ExactVectors`, which tie as in a search: by cosine similarity if all embeddings have unit length."""
    squares = np.einsum("nd,nd->n", embeddings, embeddings, dtype=np.float64)
    return ExactVectors.of(embeddings, "cosine" if np.all(np.abs(squares - 1) < UNIT) else "euclidean")


def _in_order(vectors, labels, rows):
    """Yields the blocks of `grades_in_order` of some rows."""
    size = max(1, BLOCK // max(1, len(vectors.vectors)))
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        farness = vectors.similarities(vectors.vectors[some], slice(None))
        np.negative(farness, out=farness)
        # Itself behind all.
        farness[np.arange(len(some)), some] = np.inf
        ties = vectors.ties(vectors.offsets[some], slice(None))
        yield _sorted(farness, grades(labels, some), ties)[:, :-1]


def _sorted(farness, shared, ties):
    """Returns grades `[B, M]` in the order of farness, and in ascending order among images that tie."""
    order = np.argsort(farness, axis=1)
    farness, shared, ties = (
        np.take_along_axis(each, order, axis=1) if np.ndim(each) else each for each in (farness, shared, ties)
    )
    apart = np.ones(farness.shape, bool)
    apart[:, 1:] = np.diff(farness, axis=1) > (ties[:, 1:] if np.ndim(ties) else ties)
    alone = apart.copy()
    alone[:, :-1] &= apart[:, 1:]
    tied = np.nonzero(~alone)
    groups = tie_groups(farness[tied], ties[tied] if np.ndim(ties) else ties, apart[tied])
    among = shared[tied]
    # One key for both is much faster than a sort by each.
    shared[tied] = among[np.argsort(groups * (among.max(initial=0) + 1.0) + among)]
    return shared


def mean_over_queries(blocks):
    """Returns the mean of the values of all queries, which come in blocks; None if there is no query."""
    values = np.concatenate(blocks) if blocks else np.zeros(0)
    return float(np.mean(values)) if len(values) else None


def grades_of_nearest(embeddings, labels, k):
    """Returns `[N, k]` what each image has in common with the k nearest others, of fewer with all; see `grades`.

    They are the first k of `grades_in_order`, which compares all images exactly; here only those of an image with more
    than `SPARE` others about as near as its k-th.
    """
    vectors, labels, rows = _exact(embeddings), np.asarray(labels), np.arange(len(embeddings))
    points, k = vectors.vectors, min(k, len(rows) - 1)
    near = nearest_others(points, rows, rows, min(k + SPARE, len(rows) - 1))
    lengths = np.linalg.norm(points - points.mean(axis=0), axis=1)
    # By how much others may be nearer than the farthest of these: each of d products and sums rounds once.
    errors = 2.0**-24 * (points.shape[1] + 8) * (lengths + lengths.max()) ** 2
    found, doubts = [], [np.zeros(0, np.int64)]
    size = max(1, BLOCK // (near.shape[1] * max(labels[0].size, points.shape[1])))
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        others = near[some]
        farness = vectors.offsets[others] - np.einsum("bd,bcd->bc", points[some], points[others], dtype=np.float64)
        ties = TIE * (vectors.offsets[some, None] + vectors.offsets[others]) if vectors.has_offsets else TIE
        found.append(_sorted(farness, grades(labels, some, others), ties)[:, :k])
        if near.shape[1] < len(rows) - 1:
            kth, last = np.partition(farness, (k - 1, -1), axis=1)[:, [k - 1, -1]].T
            doubts.append(some[last - kth <= errors[some] + np.max(ties, axis=-1)])
    found, doubts = np.concatenate(found), np.concatenate(doubts)
    if len(doubts):
        found[doubts] = np.concatenate([shared[:, :k] for shared in _in_order(vectors, labels, doubts)])
    return found

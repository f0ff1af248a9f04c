"""Chooses the images to label next: unlike all labeled ones, like many others, and near a decision."""

from typing import NamedTuple

import numpy as np

from tfdml.neighbors.nearest import unit_length

# Maximum number of unlabeled images that are compared with each other, drawn at random.
MOST = 5000
# Bytes for similarities that are computed at once.
MEMORY = 2**27


class Suggestions(NamedTuple):
    """Rows to label, the most useful first, with the nearest labeled row of each and the margin of its label.

    `nearest` is -1 and `margins` are 0 if no row has a label.
    """

    rows: np.ndarray
    nearest: np.ndarray
    margins: np.ndarray


def suggested(vectors, labels, count, *, decisions=0.0, duplicates=0.98, seed=0):
    """Returns the `Suggestions` of at most `count` rows without a label.

    The rows are chosen one after another. Each one is the row that most increases the sum, over all unlabeled rows, of
    the similarity to the nearest labeled or chosen row (facility location). So a row is chosen if it is unlike these
    rows, but like many others. A row counts 1 - `decisions` times the fraction of the rows with a smaller margin, which
    is the difference of its similarities to the two nearest classes. Rows with a similarity of at least `duplicates` to
    a labeled or chosen row are not chosen.

    `vectors` are `[N, d]`, and `labels` `[N]` are texts, or None for rows without a label.
    """
    vectors = unit_length(np.asarray(vectors, np.float32))
    unlabeled = np.array([label is None for label in labels], bool)
    pool, known = np.flatnonzero(unlabeled), np.flatnonzero(~unlabeled)
    pool = np.sort(np.random.default_rng(seed).permutation(pool)[:MOST])
    best, nearest, margins = _judged(vectors[pool], vectors[known], [labels[row] for row in known])
    order = margins.argsort(kind="stable")
    weights = np.empty(len(pool), np.float32)
    weights[order] = 1 - decisions * np.arange(len(pool)) / max(1, len(pool))
    similarities = vectors[pool] @ vectors[pool].T
    gains = weights @ np.maximum(similarities - best[:, None], 0)
    chosen, gone = [], best >= duplicates
    while len(chosen) < count and not gone.all():
        place = int(np.where(gone, -1, gains).argmax())
        chosen.append(place)
        gone |= similarities[place] >= duplicates
        gone[place] = True
        nearer = np.maximum(best, similarities[place])
        changed = np.flatnonzero(nearer > best)
        # Only rows that are now nearer to a chosen row contribute less than before.
        before, after = (np.maximum(similarities[changed] - each[changed, None], 0) for each in (best, nearer))
        gains -= weights[changed] @ (before - after)
        best = nearer
    found = known[nearest[chosen]] if len(known) else np.full(len(chosen), -1)
    return Suggestions(pool[chosen], found, margins[chosen])


def _judged(vectors, known, labels):
    """Returns the similarity of each vector to the nearest known vector, its place, and the margin to another label."""
    if not len(known):
        return np.full(len(vectors), -1, np.float32), np.zeros(len(vectors), np.int64), np.zeros(len(vectors))
    classes = np.unique(np.array(labels, object).astype(str), return_inverse=True)[1]
    order = np.argsort(classes, kind="stable")
    starts = np.flatnonzero(np.diff(classes[order], prepend=-1))
    best, nearest, margins = [], [], []
    step = max(1, MEMORY // (8 * len(known)))
    for first in range(0, len(vectors), step):
        similarities = vectors[first : first + step] @ known[order].T
        nearest.append(order[similarities.argmax(axis=1)])
        best.append(similarities.max(axis=1))
        of_classes = np.maximum.reduceat(similarities, starts, axis=1)
        second = np.partition(of_classes, -2, axis=1)[:, -2] if len(starts) > 1 else -1.0
        margins.append(best[-1] - second)
    return np.concatenate(best), np.concatenate(nearest), np.concatenate(margins)

"""Finds images that are nearer to another class than to their own, because their label is often wrong."""

import dataclasses
import math

import numpy as np

from tfdml.neighbors.nearest import unit_length

# Number of similarities that are in memory at once.
AT_ONCE = 2**24
# Smaller margins are rounding errors of an image that is equally near to both classes. Margins of distances are
# compared relative to the distances.
TIE = 1e-6
# Smaller squared distances, relative to both squared lengths, are rounding errors of equal vectors.
EQUAL = 1e-12


@dataclasses.dataclass(frozen=True)
class Judgement:
    """The margins by which one model doubts labels.

    `rows` `[n]`, ascending, are the images that the model judges. `margins` `[n]` are positive if an image is nearer to
    another class than to its own, negative if it is not, and NaN if it is the only image of its class. `others` `[n]`
    are the labels of these other classes.
    """

    rows: np.ndarray
    margins: np.ndarray
    others: np.ndarray

    @classmethod
    def of(cls, embeddings, labels, *, rows=None, nearest=5, distance="cosine"):
        """Judges labels `[n]` with embeddings `[n, d]`. `rows` are their rows; if None, 0 to n - 1.

        The closeness of an image to a class is the mean of its similarities to the `nearest` images of the class.
        Margins are divided by their standard deviation, so that margins of several models are comparable.
        """
        margins, others = class_margins(embeddings, labels, nearest, distance)
        deviation = np.nanstd(margins) if np.isfinite(margins).any() else 0.0
        return cls(np.arange(len(labels)) if rows is None else rows, margins / (deviation or 1.0), others)


@dataclasses.dataclass(frozen=True)
class Suspects:
    """Images with labels that most models doubt, the most doubtful first.

    Arrays `[S]`: `rows` of the images; `margins`, the means over the models; `others`, the class that an image is
    nearer to, by the model with the largest margin; `votes`, the number of models with a margin above 0; and `judges`,
    the number of models that judge the image. `unjudged` is the number of images that no model can judge, because they
    are alone in their class. `doubted` is the number of all doubted images, also of those that `share` excludes.
    """

    rows: np.ndarray
    margins: np.ndarray
    others: np.ndarray
    votes: np.ndarray
    judges: np.ndarray
    unjudged: int
    doubted: int

    @classmethod
    def of(cls, judgements, count, least=0.0, share=1.0):
        """Finds the suspects among `count` images from a list of `Judgement` objects, each about some of the images.

        The mean margin over models must exceed `least`. At most the fraction `share` of the images is returned.
        """
        totals, votes, judges = np.zeros(count), np.zeros(count, np.int64), np.zeros(count, np.int64)
        others, largest = np.zeros(count, np.int64), np.full(count, -np.inf)
        known = np.zeros(count, bool)
        for judgement in judgements:
            known[judgement.rows] = True
            judged = np.isfinite(judgement.margins)
            rows, margins = judgement.rows[judged], judgement.margins[judged]
            totals[rows] += margins
            votes[rows] += margins > 0
            judges[rows] += 1
            larger = margins > largest[rows]
            others[rows[larger]], largest[rows[larger]] = judgement.others[judged][larger], margins[larger]
        means = totals / np.maximum(judges, 1)
        found = np.flatnonzero((means > least) & (2 * votes > judges))
        doubted, most = len(found), math.ceil(share * count - TIE)
        found = found[np.argsort(-means[found], kind="stable")[:most]]
        unjudged = int(np.sum(known & (judges == 0)))
        return cls(found, means[found], others[found], votes[found], judges[found], unjudged, doubted)


def class_margins(embeddings, labels, nearest=5, distance="cosine"):
    """Returns margins `[N]` as in `Judgement.of`, but not standardized, and the nearest other class `[N]`."""
    classes, numbers, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    if len(classes) < 2:
        raise ValueError("Labels are judged by comparison with other classes, but there is only one class.")
    vectors = np.asarray(embeddings, np.float32)
    if not np.isfinite(vectors).all():
        raise ValueError("embeddings must be finite. Some contain infinite numbers or NaN.")
    if distance == "cosine":
        vectors = unit_length(vectors)
    else:
        # Subtract the mean in float64, so that distances do not lose digits to a far origin.
        vectors = np.asarray(embeddings, np.float64) - np.mean(embeddings, axis=0, dtype=np.float64)
    # Classes of the same size are adjacent, so that each size is one block of numbers.
    by_size = np.argsort(sizes, kind="stable")
    place = np.empty(len(classes), np.int64)
    place[by_size] = np.arange(len(classes))
    order = np.argsort(place[numbers], kind="stable")
    sizes, owns = sizes[by_size], place[numbers[order]]
    vectors, starts = vectors[order], np.append(0, np.cumsum(sizes))
    margins, others = np.full(len(order), np.nan), np.zeros(len(order), np.int64)
    step = max(1, AT_ONCE // len(order))
    for start in range(0, len(order), step):
        rows = slice(start, min(start + step, len(order)))
        similar, own = _similarities(vectors[rows], vectors, distance), owns[rows]
        closeness = _closeness(similar, sizes, nearest)
        near = np.array([_own(similar[at], start + at, starts, each, nearest) for at, each in enumerate(own)])
        closeness[np.arange(len(own)), own] = -np.inf
        best = closeness.argmax(axis=1)
        other = closeness[np.arange(len(own)), best]
        ties = np.abs(other - near) <= TIE * (1 if distance == "cosine" else np.abs(other))
        margins[order[rows]] = np.where(ties, 0, other - near)
        others[order[rows]] = classes[by_size[best]]
    return margins, others


def _similarities(queries, vectors, distance):
    products = queries @ vectors.T
    if distance == "cosine":
        return products
    squares = (queries**2).sum(axis=1)[:, None] + (vectors**2).sum(axis=1)
    found = squares - 2 * products
    return -np.sqrt(np.where(found > EQUAL * squares, found, 0))


def _closeness(similar, sizes, nearest):
    """Returns the means `[B, C]` of the largest similarities to each class. Classes are sorted by size."""
    found, first = [], 0
    for size, count in zip(*np.unique(sizes, return_counts=True), strict=True):
        block = similar[:, first : first + size * count].reshape(len(similar), count, size)
        found.append(_largest(block, min(nearest, size)).mean(axis=2))
        first += size * count
    return np.concatenate(found, axis=1)


def _own(similar, row, starts, own, nearest):
    """Returns the mean of a row's largest similarities to other images of its class, or NaN if there are none."""
    others = np.delete(similar[starts[own] : starts[own + 1]], row - starts[own])
    return _largest(others, min(nearest, len(others))).mean() if len(others) else np.nan


def _largest(values, count):
    """Returns the largest values along the last axis, in no particular order."""
    return np.partition(values, values.shape[-1] - count, axis=-1)[..., values.shape[-1] - count :]

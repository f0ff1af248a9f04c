"""Measures the diversity of learners, as in Divide and Conquer and Attention-based Ensemble."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfdml.evaluation.metrics.retrieval import RecallAtK
from tfdml.evaluation.queries import RetrievalTask
from tfdml.evaluation.ranks.ranks import depths_of, positive_ranks
from tfdml.neighbors.nearest import unit_length
from tfdml.registry.arguments import Embeddings, Labels

# Number of pairs that are sampled of each kind.
PAIRS = 20_000
# Images that are compared with all others at once.
BLOCK = 512
BINS = np.linspace(0.0, 2.0, 41)
COSINES = np.linspace(-1.0, 1.0, 41)
# Only one learner gets an image right if all others find none of its class among this many neighbors (Figure 9).
NONE_OF = 30


def learners_of(embeddings, count):
    """Splits retrieval embeddings `[N, K * d]` into L2-normalized learner embeddings `[N, K, d]`."""
    return unit_length(np.asarray(embeddings).reshape(len(embeddings), count, -1))


def diversity(
    embeddings: Embeddings,
    labels: Labels,
    count: int,
    measure: Callable[[np.ndarray], dict[str, Any]],
    measure_together: Callable[[np.ndarray], dict[str, Any]] | None = None,
    weights: Sequence[float] | None = None,
) -> dict[str, Any]:
    """Measures the learners of an embedding alone and together, and how similar they are to each other.

    Use this function for models with several learners, such as ensembles, to see whether each learner adds something.
    The references in brackets are to Divide and Conquer the Embedding Space for Metric Learning (CVPR 2019), unless
    they name another paper.

    Args:
        embeddings: `[N, K * d]` array, the concatenated embeddings of the learners.
        labels: `[N]` integer class labels.
        count: Integer. The number K of learners.
        measure: Function that maps embeddings `[N, D]` to a dictionary of metrics.
        measure_together: Function like `measure` that is applied to the first m learners together. If `None`, `measure`
            is used. Defaults to `None`.
        weights: Sequence of K positive numbers. Factors of the learners' cosines when learners are measured together.
            If `None`, all learners have the same weight. Defaults to `None`.

    Returns:
        A dictionary with these keys:

        - `alone`: the metrics of each learner (Table 7), with their `mean` and `deviation` under these keys.
        - `first`: the metrics of the first m learners together, for m from 1 to K (Figure 10).
        - `correlation`: the mean absolute correlation between dimensions of different learners (Table 7).
        - `only_one`: for each learner, the number of images that only this learner gets right (Figure 9).
        - `pair_cosines`: histograms of cosines within and between learners (Figure 5 of Attention-based Ensemble).

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0, 1, 0], [0.8, 0.6, 1, 0], [0, 1, 0, 1], [0.6, 0.8, 0, 1]], "float32")
    measure = lambda part: tfdml.evaluation.evaluate(part, labels, "recall_at_1")
    found = tfdml.evaluation.diversity(embeddings, labels, 2, measure)
    found["mean"], found["only_one"]  # ({'recall_at_1': 0.75, 'queries': 4.0}, [0, 0])
    ```
    """
    learners = learners_of(embeddings, count)
    alone = [measure(learners[:, k]) for k in range(count)]
    scaled = learners if weights is None else learners * np.sqrt(weights, dtype=learners.dtype)[:, None]
    together = [(measure_together or measure)(_flat(scaled[:, :m])) for m in range(1, count + 1)]
    # Metrics may be None for some learners.
    values = {name: [metrics[name] for metrics in alone if metrics[name] is not None] for name in alone[0]}
    return {
        "alone": alone,
        "mean": {name: float(np.mean(each)) if each else None for name, each in values.items()},
        "deviation": {name: float(np.std(each, ddof=1)) if each[1:] else None for name, each in values.items()},
        "first": together,
        "correlation": correlation(learners),
        "only_one": [len(rows) for rows in only_one_right(learners, labels)],
        "pair_cosines": pair_cosines(learners, labels),
    }


def correlation(learners):
    """Returns the mean absolute correlation between dimensions of different learners, or 0 for one learner.

    Table 7 of Divide and Conquer calls it the correlation coefficient of the learners, without a formula. Dimensions
    that are 0 for all images are not counted, because they only pad learners that have fewer dimensions than others.
    """
    rows, count, dim = learners.shape
    if count == 1:
        return 0.0
    centred = _flat(learners) - _flat(learners).mean(axis=0)
    lengths = np.linalg.norm(centred, axis=0)
    unit = centred / np.where(lengths > 0, lengths, 1.0)
    owner, filled = np.repeat(np.arange(count), dim), _flat(learners).any(axis=0)
    counted = (owner[:, None] != owner[None, :]) & filled[:, None] & filled[None, :]
    return float(np.mean(np.abs(unit.T @ unit)[counted])) if counted.any() else 0.0


def only_one_right(learners, labels):
    """Returns, for each learner, the rows that only it gets right: the others find no positive among 30 neighbors."""
    # The rank of each row's first positive, exact up to `NONE_OF`. It is 0 for the only row of a class.
    first, depths = np.zeros(learners.shape[:2], np.int64), depths_of([RecallAtK(NONE_OF)])
    for k in range(learners.shape[1]):
        for ranks in positive_ranks(learners[:, k], RetrievalTask.of(labels), first_only=True, depths=depths):
            first[ranks.rows, k] = ranks.first
    found = []
    for k in range(learners.shape[1]):
        others = np.delete(first, k, axis=1)
        found.append(np.flatnonzero((first[:, k] == 1) & np.all(others > NONE_OF, axis=1)) if others.size else [])
    return found


def margins(learners, labels):
    """Returns how much more similar each image's nearest positive is than its nearest negative, `[N, K]`.

    A margin is positive if the nearest neighbor is of the same class, and minus infinity without a positive.
    Learners are L2-normalized arrays `[N, K, d]`.
    """
    labels, found = np.asarray(labels), np.empty(learners.shape[:2], np.float32)
    for start in range(0, len(labels), BLOCK):
        rows = np.arange(start, min(start + BLOCK, len(labels)))
        same = labels[rows][:, None] == labels
        for k in range(learners.shape[1]):
            cosines = learners[rows, k] @ learners[:, k].T
            # -2 is below all cosines, in case all images are of one class.
            negative = np.where(same, -2.0, cosines).max(axis=1)
            cosines[np.arange(len(rows)), rows] = -np.inf
            found[rows, k] = np.where(same, cosines, -np.inf).max(axis=1) - negative
    return found


def negative_distances(embeddings, labels, clusters, *, seed=0):
    """Computes histograms of the distances of negative pairs, within clusters and between clusters (Figure 8).

    Embeddings must be L2-normalized. Returns `{"edges": [...], "within": [...], "between": [...], "mean_within":
    number, "mean_between": number}`.
    """
    embeddings, labels, clusters = np.asarray(embeddings), np.asarray(labels), np.asarray(clusters)
    random = np.random.default_rng(seed)
    one, other = random.integers(0, len(labels), (2, 20 * PAIRS))
    negative, together = labels[one] != labels[other], clusters[one] == clusters[other]
    distances = {}
    for name, kind in (("within", negative & together), ("between", negative & ~together)):
        places = np.flatnonzero(kind)[:PAIRS]
        distances[name] = np.linalg.norm(embeddings[one[places]] - embeddings[other[places]], axis=1)
    return _shares(distances, BINS)


def pair_cosines(learners, labels, *, seed=0):
    """Computes histograms of the cosines of positive, negative and self pairs (one image, two learners).

    Learners are L2-normalized arrays `[N, K, d]`. Returns `{"edges": [...], "positive": [...], ..., "mean_positive":
    number, ...}`. A mean is None if there are no such pairs.
    """
    random, labels = np.random.default_rng(seed), np.asarray(labels)
    rows, count, _ = learners.shape
    one, other = random.integers(0, rows, (2, 20 * PAIRS))
    negative = np.flatnonzero(labels[one] != labels[other])[:PAIRS]
    again, partner = positive_pairs(labels, random)
    k, apart = random.integers(0, count, PAIRS), random.integers(1, max(count, 2), PAIRS)
    image = random.integers(0, rows, PAIRS if count > 1 else 0)
    pairs = {
        "positive": (learners[again, k[: len(again)]], learners[partner, k[: len(again)]]),
        "negative": (learners[one[negative], k[: len(negative)]], learners[other[negative], k[: len(negative)]]),
        "self": (learners[image, k[: len(image)]], learners[image, ((k + apart) % count)[: len(image)]]),
    }
    # Rounding can make cosines larger than 1.
    cosines = {kind: np.sum(first * second, axis=1).clip(-1, 1) for kind, (first, second) in pairs.items()}
    return _shares(cosines, COSINES)


def positive_pairs(labels, random):
    """Samples pairs of different rows with the same class, `(rows, rows)`. All rows are equally likely."""
    order = np.argsort(labels, kind="stable")
    _, start, size = np.unique(labels[order], return_index=True, return_counts=True)
    start, size = np.repeat(start, size), np.repeat(size, size)
    usable = np.flatnonzero(size > 1)
    if not len(usable):
        return usable, usable
    place = random.choice(usable, PAIRS)
    step = 1 + random.integers(0, size[place] - 1)
    return order[place], order[start[place] + (place - start[place] + step) % size[place]]


def _shares(values, edges):
    """Returns a histogram for each kind of values, as fractions, and its mean; None without values."""
    found = {"edges": edges.tolist()}
    for kind, each in values.items():
        found[kind] = (np.histogram(each, edges)[0] / max(len(each), 1)).tolist()
        found[f"mean_{kind}"] = float(np.mean(each)) if len(each) else None
    return found


def _flat(learners):
    return learners.reshape(len(learners), -1)

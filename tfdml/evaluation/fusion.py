"""Similarity to several networks at once."""

import numpy as np

from tfdml.neighbors.nearest import unit_length


def fuse(members, weights=None):
    """Joins the embeddings of the members of an ensemble: `s(x, y) = sum_e alpha_e s(x_e, y_e)`, (1) of EDMS.

    Args:
        members: list of arrays `[N, d]`, which may differ in d; each is brought to unit length.
        weights: `alpha`, a number of 0 or more for each member; None: 1 for all. Their sum changes nothing.

    Returns:
        `[N, E * d]` at unit length: `sqrt(alpha_e) x_e` side by side, members of fewer dimensions than the largest with
        zeros at their end. Cosines of its rows are the similarity, divided by the sum of the weights.
    """
    weights = np.ones(len(members)) if weights is None else np.asarray(weights, float)
    size = max(each.shape[1] for each in members)
    scales = np.sqrt(weights / weights.sum()).astype(np.float32)
    padded = (np.pad(unit_length(each), ((0, 0), (0, size - each.shape[1]))) for each in members)
    return np.concatenate([scale * each for scale, each in zip(scales, padded, strict=True)], axis=1)


def fit_weights(members, measure):
    """Fits the weights of (1) by ensemble selection with replacement.

    Caruana et al., Ensemble Selection from Libraries of Models, ICML 2004: from an empty selection, the member that
    brings the best measure joins it, again and again, and may join several times; a member's weight is how often it was
    selected. 2 E members join, and the selection counts that was the best on the way, if it is better than all weights
    1. Of equal ones the first counts, so nothing is random. The measure is taken 2 E^2 times.

    Args:
        members: list of arrays `[N, d]`, embeddings of rows on which no member was trained.
        measure: function of embeddings `[N, D]` that gives a number, larger for better ones.

    Returns:
        Weights `[E]`, integers of 0 or more.
    """
    count = len(members)
    equal = best = np.ones(count, int)
    best_value = measure(fuse(members, equal))
    selected = np.zeros(count, int)
    for _ in range(2 * count):
        more = [selected + one for one in np.eye(count, dtype=int)]
        values = [measure(_selection(members, weights)) for weights in more]
        selected = more[int(np.argmax(values))]
        if max(values) > best_value:
            best, best_value = selected, max(values)
    return best


def _selection(members, weights):
    chosen = np.flatnonzero(weights)
    return fuse([members[place] for place in chosen], weights[chosen])

"""Similarities of pairs that are given one by one."""

import numpy as np

# Pairs that are compared at once.
AT_ONCE = 8192


def given_similarities(vectors, one, other, distance="cosine"):
    """Returns the similarity `[P]` of each pair, in float64; minus the distance where pairs are compared by distance.

    Args:
        vectors: `ExactVectors`.
        one, other: `[P]` rows.
        distance: `cosine` or `euclidean`, as the vectors are.
    """
    found = np.empty(len(one))
    for start in range(0, len(one), AT_ONCE):
        pairs = slice(start, start + AT_ONCE)
        first, second = (vectors.vectors[rows[pairs]].astype(np.float64) for rows in (one, other))
        if distance == "cosine":
            found[pairs] = np.einsum("pd,pd->p", first, second)
        else:
            found[pairs] = -vectors.scale * np.linalg.norm(first - second, axis=1)
    return found

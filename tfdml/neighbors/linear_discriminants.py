"""Linear discriminants."""

import numpy as np

# The part of the mean variance within classes that is added in every direction, so that directions in which few images
# hardly vary by chance do not count more than all else.
SHRINKAGE = 0.3
# Variances below this part of the largest are what rounding leaves of none.
SMALLEST = 1e-10


def linear_discriminants(vectors, labels, count, shrinkage=SHRINKAGE):
    """Returns the directions in which classes differ most beside how much their members do, the strongest first.

    Vectors projected on them vary within their classes alike in all directions, but for the shrinkage.

    Args:
        vectors: `[N, D]` array.
        labels: `[N]` class numbers; at least one class has two vectors that differ.
        count: number of discriminants; fewer are returned where vectors vary in fewer dimensions.
        shrinkage: the part of the mean variance within classes that is added in every direction.

    Returns:
        The directions `[D, n]`, n at most `count`.
    """
    vectors = np.asarray(vectors, np.float64)
    _, classes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    means = np.zeros((len(sizes), vectors.shape[1]))
    np.add.at(means, classes, vectors)
    means /= sizes[:, None]
    apart = vectors - means[classes]
    within = apart.T @ apart / max(len(vectors) - len(sizes), 1)
    mean_variance = np.trace(within) / len(within)
    if not mean_variance > 0:
        raise ValueError(
            f"Expected a class with two images whose features differ, received {len(vectors)} images of {len(sizes)} "
            "classes without one. Discriminants need them; principal components do not."
        )
    variances, axes = np.linalg.eigh(within)
    whiten = axes / np.sqrt(np.maximum(variances, 0.0) + shrinkage * mean_variance)
    centered = (vectors - vectors.mean(axis=0)) @ whiten
    strengths, turns = np.linalg.eigh(centered.T @ centered)
    known = np.flatnonzero(strengths > SMALLEST * strengths[-1])[::-1][:count]
    return whiten @ turns[:, known]

"""Directions that tell classes apart: linear discriminants, and components after whitening within classes."""

import numpy as np

# This fraction of the mean variance within classes is added in every direction. Without it, directions in which a small
# set of images hardly varies by chance would dominate all others.
SHRINKAGE = 0.3
# Variances below this fraction of the largest one are rounding errors.
SMALLEST = 1e-10


def linear_discriminants(vectors, labels, count, shrinkage=SHRINKAGE):
    """Returns the directions that separate class means best, relative to the variance within classes.

    These are the eigenvectors of `S_b v = l (S_w + s I) v` with the scatter `S_b` between the class means and the
    covariance `S_w` within classes. C classes have at most C - 1 of them. If `count` is larger, the other directions
    are the principal components of what remains after whitening within classes.

    Args:
        vectors: `[N, D]` array.
        labels: `[N]` integer class labels. At least one class must have two different vectors.
        count: Number of directions. Fewer are returned if the vectors vary in fewer dimensions.
        shrinkage: Fraction of the mean variance within classes that is added in every direction.

    Returns:
        Array `[D, n]`, where n is at most `count`. The strongest directions come first.
    """
    whiten, centered, means, sizes = _whitened(vectors, labels, shrinkage)
    strengths, axes = np.linalg.eigh(means.T * sizes @ means)
    separating = np.flatnonzero(strengths > SMALLEST * strengths[-1])[::-1][: min(count, len(sizes) - 1)]
    discriminants = whiten @ axes[:, separating]
    # Narrow features of many classes have no other directions.
    if len(separating) in (count, len(axes)):
        return discriminants
    rest = np.delete(axes, separating, axis=1)
    turns = _components(centered @ rest, count - len(separating))
    return np.concatenate([discriminants, whiten @ rest @ turns], axis=1)


def within_class_whitened_components(vectors, labels, count, shrinkage=SHRINKAGE):
    """Returns the principal components of vectors after whitening within classes (WCCN).

    Projections on these directions vary equally within classes, except for the shrinkage. Unlike linear discriminants,
    the directions are ordered by the *total* variance that is left, and there can be more of them than classes.

    Args:
        vectors: `[N, D]` array.
        labels: `[N]` integer class labels. At least one class must have two different vectors.
        count: Number of directions. Fewer are returned if the vectors vary in fewer dimensions.
        shrinkage: Fraction of the mean variance within classes that is added in every direction.

    Returns:
        Array `[D, n]`, where n is at most `count`. The strongest directions come first.
    """
    whiten, centered, _, _ = _whitened(vectors, labels, shrinkage)
    return whiten @ _components(centered, count)


def _whitened(vectors, labels, shrinkage):
    """Returns the map `[D, D]` that whitens within classes, and what it makes of vectors and class means, centered."""
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
            "Linear discriminants and whitening within classes need a class with two images whose features differ. "
            f"Received: {len(vectors)} images of {len(sizes)} classes without such a class. Use principal components, "
            "which need no classes."
        )
    variances, axes = np.linalg.eigh(within)
    whiten = axes / np.sqrt(np.maximum(variances, 0.0) + shrinkage * mean_variance)
    mean = vectors.mean(axis=0)
    return whiten, (vectors - mean) @ whiten, (means - mean) @ whiten, sizes


def _components(centered, count):
    """Returns the directions `[D, n]` of the largest variance of centered vectors, at most `count`."""
    strengths, axes = np.linalg.eigh(centered.T @ centered)
    return axes[:, np.flatnonzero(strengths > SMALLEST * strengths[-1])[::-1][:count]]

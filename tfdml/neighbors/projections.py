"""Linear projections of embeddings: principal components, and directions that separate classes."""

import numpy as np

# Deviations below this fraction of the largest one are rounding errors.
SMALLEST = 1e-6


def principal_components(vectors, count):
    """Returns the directions in which vectors `[N, D]` vary most. The direction of the largest variance comes first.

    These are the mean `[D]` of the vectors, directions `[D, n]` of length 1, and the standard deviations `[n]` along
    them, fewer than `count` if the vectors vary in fewer dimensions. The largest entry of each direction is positive.
    """
    vectors = np.asarray(vectors, np.float64)
    most = min(count, vectors.shape[1], len(vectors) - 1)
    mean = vectors.mean(axis=0)
    centered = vectors - mean
    if most < 1:
        return mean, np.zeros((vectors.shape[1], 0)), np.zeros(0)
    if len(vectors) > vectors.shape[1]:
        # The covariance is faster. It loses only digits that embeddings do not have.
        variances, directions = largest_eigenpairs(centered.T @ centered / (len(vectors) - 1), most)
        deviations = np.sqrt(np.maximum(variances, 0.0))
    else:
        _, values, axes = np.linalg.svd(centered, full_matrices=False)
        deviations, directions = values[:most] / np.sqrt(max(len(vectors) - 1, 1)), axes[:most].T
    varied = int(np.sum(deviations > SMALLEST * max(deviations[0], np.finfo(np.float64).tiny)))
    directions = directions[:, :varied]
    largest = np.take_along_axis(directions, np.abs(directions).argmax(axis=0)[None], axis=0)
    return mean, directions * np.where(largest < 0, -1.0, 1.0), deviations[:varied]


def largest_eigenpairs(matrix, count):
    """Returns the largest eigenvalues of a symmetric matrix `[D, D]`, at most `count`, and their axes `[D, n]`.

    The largest one comes first. Computing some of the eigenvectors is much faster than computing all.
    """
    # Imported here because it takes a part of a second, and most commands that import this module do not need it.
    from scipy.linalg import eigh

    first = max(len(matrix) - count, 0)
    values, axes = eigh(matrix, subset_by_index=(first, len(matrix) - 1))
    return values[::-1], axes[:, ::-1]


# This fraction of the mean variance within classes is added in every direction. Without it, directions in which a small
# set of images hardly varies by chance would dominate all others.
SHRINKAGE = 0.3
# Variances below this fraction of the total are rounding errors.
SMALLEST_VARIANCE = 1e-10


def linear_discriminants(vectors, labels, count, shrinkage=SHRINKAGE):
    """Returns the directions `[D, n]` that separate class means best, relative to the variance within classes.

    These are the eigenvectors of `S_b v = l (S_w + s I) v` with the scatter `S_b` between the class means and the
    covariance `S_w` within classes. C classes have at most C - 1 of them. If `count` is larger, the other directions
    are the principal components of what remains after whitening within classes. There are fewer if the vectors vary in
    fewer dimensions, and the strongest come first.

    At least one class must have two different vectors. `shrinkage` is the fraction of the mean variance within classes
    that is added in every direction.
    """
    whiten, centered, means, sizes = _whitened(vectors, labels, shrinkage)
    _, strengths, axes = np.linalg.svd(np.sqrt(sizes)[:, None] * means, full_matrices=False)
    known = np.flatnonzero(np.square(strengths) > SMALLEST_VARIANCE * np.square(strengths[0]))
    separating = axes[known[: min(count, len(sizes) - 1)]].T
    # The rest is orthogonal to the discriminants.
    rest = centered - centered @ separating @ separating.T
    others = _components(rest, count - separating.shape[1], np.square(centered).sum())
    return whiten @ np.concatenate([separating, others], axis=1)


def within_class_whitened_components(vectors, labels, count, shrinkage=SHRINKAGE):
    """Returns the principal components of vectors after whitening within classes (WCCN).

    Projections on these directions vary equally within classes, except for the shrinkage. Unlike linear discriminants,
    the directions are ordered by the *total* variance that is left, and there can be more of them than classes. For
    arguments and result, see `linear_discriminants`.
    """
    whiten, centered, _, _ = _whitened(vectors, labels, shrinkage)
    return whiten @ _components(centered, count, np.square(centered).sum())


def _whitened(vectors, labels, shrinkage):
    """Returns the map `[D, D]` that whitens within classes, and the centered vectors and class means after it."""
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
            "Linear discriminants and whitening within classes need a class with two images with different features. "
            f"Received: {len(vectors)} images of {len(sizes)} classes without such a class. Use principal components, "
            "which need no classes."
        )
    within[np.diag_indices_from(within)] += shrinkage * mean_variance
    # Any map that whitens will do, since directions in whitened coordinates are found afterwards.
    whiten = np.linalg.inv(np.linalg.cholesky(within)).T
    mean = vectors.mean(axis=0)
    return whiten, (vectors - mean) @ whiten, (means - mean) @ whiten, sizes


def _components(centered, count, total):
    """Returns the directions `[D, n]` of the largest variance of centered vectors, at most `count`.

    Directions with less than a fraction `SMALLEST` of the `total` sum of squares are left out.
    """
    if count < 1:
        return np.zeros((centered.shape[1], 0))
    strengths, axes = largest_eigenpairs(centered.T @ centered, count)
    return axes[:, strengths > SMALLEST_VARIANCE * total]

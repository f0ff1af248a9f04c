"""Principal components."""

import numpy as np

# Deviations below this fraction of the largest one are rounding errors.
SMALLEST = 1e-6


def principal_components(vectors, count):
    """Returns the directions in which vectors vary most. The direction of the largest variance comes first.

    Args:
        vectors: `[N, D]` array.
        count: Number of components. Fewer are returned if the vectors vary in fewer dimensions.

    Returns:
        The mean `[D]` of the vectors, directions `[D, n]` of length 1, and the standard deviations `[n]` along them.
        The largest entry of each direction is positive.
    """
    vectors = np.asarray(vectors, np.float64)
    most = min(count, vectors.shape[1], len(vectors) - 1)
    mean = vectors.mean(axis=0)
    centered = vectors - mean
    if most < 1:
        return mean, np.zeros((vectors.shape[1], 0)), np.zeros(0)
    if len(vectors) > vectors.shape[1]:
        # The covariance is faster, and loses digits that no embedding has.
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

    The largest one comes first. A part of the eigenvectors takes a fraction of the time that all of them take.
    """
    # Here, because it takes a part of a second, and other commands import this module.
    from scipy.linalg import eigh

    first = max(len(matrix) - count, 0)
    values, axes = eigh(matrix, subset_by_index=(first, len(matrix) - 1))
    return values[::-1], axes[:, ::-1]

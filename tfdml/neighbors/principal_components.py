"""Principal components."""

import numpy as np

# Deviations below this part of the largest are what rounding leaves of none.
SMALLEST = 1e-6


def principal_components(vectors, count):
    """Returns the directions in which vectors vary most, those of the largest variance first.

    Args:
        vectors: `[N, D]` array.
        count: number of components; fewer are returned where vectors vary in fewer dimensions.

    Returns:
        The mean `[D]` of the vectors, directions `[D, n]` of length 1, and the standard deviations `[n]` along them.
    """
    # It takes as long to load as all else.
    from sklearn.decomposition import PCA

    vectors = np.asarray(vectors, np.float64)
    most = min(count, vectors.shape[1], len(vectors) - 1)
    # Of a few dimensions and many vectors the covariance is faster, which loses digits that no embedding has.
    solver = "covariance_eigh" if len(vectors) > vectors.shape[1] else "full"
    found = PCA(most, svd_solver=solver).fit(vectors)
    deviations = np.sqrt(np.maximum(found.explained_variance_, 0.0))
    varied = int(np.sum(deviations > SMALLEST * max(deviations[0], np.finfo(np.float64).tiny)))
    return found.mean_, found.components_[:varied].T, deviations[:varied]

"""`Projection`: fewer dimensions for an embedding."""

import numpy as np
import tensorflow as tf

from tfdml.neighbors.projections import principal_components


class Projection:
    """Maps embeddings to their principal components, and brings these to unit length. `Projection.fit` creates it.

    With whitening it is that of "Negative Evidences and Co-occurrences in Image Retrieval: the Benefit of PCA and
    Whitening" (ECCV 2012).

    Args:
        mean: `[D]`, the mean of the embeddings.
        components: `[D, N]`, the directions, divided by the standard deviations along them for whitening.
        whitened: whether they are.
    """

    def __init__(self, mean, components, whitened=False):
        self.mean = np.asarray(mean, np.float32)
        self.components = np.asarray(components, np.float32)
        self.description = f"principal components of {len(self.mean)} dimensions{', whitened' if whitened else ''}"

    @classmethod
    def fit(cls, embeddings, dims, whiten=False):
        """Creates the projection to the principal components of embeddings.

        Args:
            embeddings: `[N, D]` array, such as those of the training images.
            dims: number of components.
            whiten: whether all components get a variance of 1.
        """
        most = min(embeddings.shape[1], len(embeddings) - 1)
        if not 1 <= dims <= most:
            raise ValueError(
                f"Expected 1 to {most} dimensions, received {dims}: the embedding has {embeddings.shape[1]}, and "
                f"{len(embeddings)} images determine no more than {len(embeddings) - 1}."
            )
        mean, components, deviations = principal_components(embeddings, dims)
        if len(deviations) < dims:
            raise ValueError(
                f"The embeddings vary in {len(deviations)} dimensions only; {dims} are not possible. Choose no more "
                "than these."
            )
        return cls(mean, components / (deviations if whiten else 1.0), whiten)

    @property
    def dimension(self):
        """The number N of components."""
        return self.components.shape[1]

    def __call__(self, embeddings):
        """Returns the projections `[B, N]` of embeddings `[B, D]`."""
        return tf.math.l2_normalize((embeddings - self.mean) @ self.components, axis=-1)

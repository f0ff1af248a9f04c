"""Clusters as labels."""

from typing import Annotated

import numpy as np

from tfdml.registry import register
from tfdml.registry.arguments import Count, Labels, integer
from tfdml.registry.fields import Value


@register("labels", "clusters")
class Clusters(Value):
    """Clusters of the embeddings of all training images, found anew while a run trains, as their classes.

    DeepCluster (Caron et al., Deep Clustering for Unsupervised Learning of Visual Features, 2018), with any loss. A
    cluster keeps the number of the one before that it overlaps most with, so that proxies of classes go on.

    Args:
        k: number of clusters.
        every: epochs from one clustering to the next; the first is before the first epoch.
        iterations: of K-means.
    """

    k: Annotated[int, integer(2)] = 100
    every: Count = 1
    iterations: Count = 20

    def fitted_to(self, labels: Labels) -> dict[str, int]:
        """Returns the arguments that fit training images: no more clusters than have two images each."""
        return {"k": max(2, min(self.k, len(labels) // 2))}

    def first(self, labels: Labels, seed: int) -> np.ndarray:
        """Returns the labels of training images, in place of theirs: random ones until the first clustering."""
        count = len(labels)
        if count < 2 * self.k:
            raise ValueError(
                f"{count} training images are too few for {self.k} clusters; expected two images or more for each."
            )
        return np.random.default_rng(seed).permutation(count) % self.k

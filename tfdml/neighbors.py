"""Nearest neighbors of embeddings."""

import numpy as np

from tfdml.faiss_library import load_faiss


def nearest(queries, gallery, k):
    """Returns the `[Q, k]` rows of the gallery that are nearest to each query, nearest first, by Euclidean distance.

    Args:
        queries: `[Q, d]` array, finite.
        gallery: `[G, d]` array, finite, of k rows or more.
        k: number of neighbors.
    """
    # Around the mean, so that float32 tells distances apart where all embeddings are near each other.
    center = np.mean(gallery, axis=0, dtype=np.float64)
    index = load_faiss().IndexFlatL2(gallery.shape[1])
    index.add(np.ascontiguousarray(gallery - center, np.float32))
    return index.search(np.ascontiguousarray(queries - center, np.float32), k)[1]

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


def nearest_others(embeddings, queries, gallery, k):
    """Returns the `[Q, k]` rows of a gallery that are nearest to each query, without itself, nearest first.

    Fewer than k if the gallery has no more than k rows.

    Args:
        embeddings: `[N, d]` array, finite.
        queries: `[Q]` rows.
        gallery: `[G]` rows, which may include the queries.
        k: number of neighbors.
    """
    found = gallery[nearest(embeddings[queries], embeddings[gallery], min(k + 1, len(gallery)))]
    itself = found == queries[:, None]
    # A query that is not in the gallery, or that others equal, may be missing; then the last goes.
    itself[~itself.any(axis=1), -1] = True
    return found[~itself].reshape(len(queries), -1)

"""Nearest neighbors of embeddings, exact and with faiss."""

import concurrent.futures
import functools
import logging
import os

import numpy as np

from tfdml.runtime.workers import ALONE


def load_faiss():
    """Imports faiss on demand: it is slow to load, and only one of its two builds can be installed."""
    logging.getLogger("faiss").setLevel(logging.WARNING)  # It logs CPU features and times.
    import faiss

    return faiss


# Number of distances in a group, of which only the smallest is compared at first.
GROUP = 32
# Marks a missing neighbor.
NO_NEIGHBOR = -1


def unit_length(vectors):
    """Returns L2-normalized vectors `[..., d]`. Zeros stay zeros, and no square overflows or underflows."""
    vectors = np.asarray(vectors)
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    found = vectors / np.where(lengths > 0, lengths, 1.0)
    limits = np.finfo(lengths.dtype)
    # Squares of very short vectors lose digits, and squares of very long ones overflow.
    extreme = (~np.isfinite(lengths) | (lengths < np.sqrt(limits.tiny / limits.eps)))[..., 0]
    if extreme.any():
        largest = np.abs(vectors[extreme]).max(axis=-1, keepdims=True, initial=0.0)
        scaled = vectors[extreme] / np.where(largest > 0, largest, 1.0)
        lengths = np.linalg.norm(scaled, axis=-1, keepdims=True)
        found[extreme] = scaled / np.where(lengths > 0, lengths, 1.0)
    return found


def compared_vectors(embeddings, metric):
    """Returns float32 embeddings, L2-normalized for the metric `cosine` and unchanged for `euclidean`."""
    embeddings = np.ascontiguousarray(embeddings, np.float32)
    return embeddings if metric == "euclidean" else unit_length(embeddings)


def nearest(queries, gallery, k):
    """Returns the gallery rows `[Q, k]` that are nearest to each query, nearest first, by Euclidean distance.

    Queries `[Q, d]` and gallery `[G, d]` are finite, and the gallery has at least k rows.
    """
    # Subtract the mean, so that float32 can distinguish distances if all embeddings are near each other.
    center = np.mean(gallery, axis=0, dtype=np.float64)
    index = load_faiss().IndexFlatL2(gallery.shape[1])
    index.add(np.ascontiguousarray(gallery - center, np.float32))
    return index.search(np.ascontiguousarray(queries - center, np.float32), k)[1]


def nearest_others(embeddings, queries, gallery, k):
    """Returns the gallery rows `[Q, k]` that are nearest to each query, without the query itself, nearest first.

    If the gallery has at most k rows, there are fewer columns. Queries `[Q]` and gallery `[G]`, which may include them,
    are rows of finite embeddings `[N, d]`.
    """
    found = gallery[nearest(embeddings[queries], embeddings[gallery], min(k + 1, len(gallery)))]
    itself = found == queries[:, None]
    # A query may be missing, because it is not in the gallery or equals others. Then drop the last row instead.
    itself[~itself.any(axis=1), -1] = True
    return found[~itself].reshape(len(queries), -1)


def nearest_negatives(embeddings, labels, k, *, memory=2**27, workers=None):
    """Returns the rows of other classes `[N, k]` (int32) that are nearest to each row, nearest first.

    Rows are compared by Euclidean distance. If other classes have fewer than k rows, the result is padded with
    `NO_NEIGHBOR`. `memory` is the number of bytes for the distances that are compared at once. `workers` search
    together, with the same arguments and results; if None, this process searches alone.
    """
    # Rows of a class are adjacent, so that they are a slice of the distances.
    order = np.argsort(labels, kind="stable")
    labels = np.asarray(labels)[order]
    starts, ends = np.searchsorted(labels, labels, "left"), np.searchsorted(labels, labels, "right")
    count = len(order)
    group = max(1, min(GROUP, count // (4 * k)))
    groups = -(-count // group)
    gallery = _with_half_squares(embeddings, order, rows=group * groups)
    size = max(1, min(count, memory // (4 * len(gallery))))
    closeness = np.empty((size, len(gallery)), np.float32)
    # In the order of classes. Workers share whole blocks, so that results are bit-for-bit the same.
    found = np.full((count, k), NO_NEIGHBOR, np.int32)
    workers = workers or ALONE
    share = workers.share(-(-count // size))
    own = slice(share.start * size, min(share.stop * size, count))

    def search(first, rows):
        """Searches for the rows of the block that starts at `first`."""
        block = closeness[rows]
        block[:, count:] = -np.inf
        for each, row in zip(block, range(first + rows.start, first + rows.stop), strict=True):
            each[starts[row] : ends[row]] = -np.inf
        near = _largest(block, group, k)
        there = np.take_along_axis(block, near, axis=1) > -np.inf
        found[first + rows.start : first + rows.stop, : near.shape[1]] = np.where(
            there, order[near % count], NO_NEIGHBOR
        )

    def search_share():
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
            for first in range(own.start, own.stop, size):
                queries = gallery[first : min(first + size, count)].copy()
                queries[:, -1] = 1.0
                np.matmul(queries, gallery.T, out=closeness[: len(queries)])
                step = -(-len(queries) // (4 * os.cpu_count()))
                parts = [slice(each, min(each + step, len(queries))) for each in range(0, len(queries), step)]
                list(threads.map(functools.partial(search, first), parts))
        return (found[own],)

    by_row = np.empty_like(found)
    (by_row[order],) = workers.gather(search_share)
    return by_row


def _with_half_squares(embeddings, order, rows):
    """Returns float32 vectors minus their mean with an additional last column: minus half their squared lengths.

    If the last column of a query is 1, products are a b - |b|^2 / 2, which ranks rows by their distance from a. Rows
    are padded with zeros.
    """
    vectors = np.zeros((rows, embeddings.shape[1] + 1), np.float32)
    center = np.mean(embeddings, axis=0, dtype=np.float64).astype(np.float32)
    np.subtract(embeddings[order], center, out=vectors[: len(order), :-1])
    vectors[:, -1] = -0.5 * np.einsum("nd,nd->n", vectors[:, :-1], vectors[:, :-1])
    return vectors


def _largest(values, group, k):
    """Returns the places of the k largest values of each row, or of all if there are fewer, the largest first.

    They are in the k groups with the largest maxima. Computing the maxima takes one pass, while sorting would take
    many.
    """
    groups = values.shape[1] // group
    maxima = values.reshape(-1, group, groups).max(axis=1)
    best = _places_of_largest(maxima, k)
    places = (best[:, None, :] + groups * np.arange(group)[:, None]).reshape(len(values), -1)
    candidates = np.take_along_axis(values, places, axis=1)
    chosen = _places_of_largest(candidates, k)
    order = np.argsort(-np.take_along_axis(candidates, chosen, axis=1), axis=1, kind="stable")
    return np.take_along_axis(places, np.take_along_axis(chosen, order, axis=1), axis=1)


def _places_of_largest(values, k):
    """Returns the places of the k largest values of each row, in any order."""
    k = min(k, values.shape[1])
    return np.argpartition(values, values.shape[1] - k, axis=1)[:, values.shape[1] - k :]

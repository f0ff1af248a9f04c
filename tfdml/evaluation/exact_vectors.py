"""Embeddings rounded so that their inner products are exact in float64.

Each component is a multiple of 2^-24, and no vector is longer than 1 but for rounding. So each product is a multiple of
2^-48, each partial sum is at most about 1, and float64, with 53 bits, holds every sum without rounding. The result then
depends neither on the order of summation, nor on blocks, threads or libraries.
"""

import dataclasses
import tempfile

import numpy as np

from tfdml.clustering import check_finite

STEP = 2.0**-24
# Rows prepared at once.
ROWS = 8192


@dataclasses.dataclass(frozen=True)
class ExactVectors:
    """Vectors whose similarities are exact.

    Args:
        vectors: `[N, d]` float32; similarity is the inner product, minus `offsets` of the gallery's row.
        offsets: `[N]` float64: 0 for cosine similarity; half the squared length for Euclidean distance, where the
            similarity is half of (the query's squared length minus the squared distance).
    """

    vectors: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, embeddings, distance="cosine"):
        """Rounds embeddings.

        Args:
            embeddings: `[N, d]` array, finite; a memory-mapped one is rounded into a temporary file, not into memory.
            distance: `cosine` or `euclidean`. Euclidean distances are relative to the longest vector.
        """
        check_finite(embeddings)
        lengths = _lengths(embeddings)
        euclidean = distance == "euclidean"
        divisors = np.full_like(lengths, lengths.max()) if euclidean else lengths
        divisors = np.where(divisors > 0, divisors, 1.0)[:, None]
        vectors, offsets = _space(embeddings), np.zeros(len(embeddings))
        for start in range(0, len(embeddings), ROWS):
            rows = slice(start, start + ROWS)
            rounded = np.round(_float64(embeddings[rows]) / divisors[rows] / STEP) * STEP
            vectors[rows] = rounded
            if euclidean:
                offsets[rows] = np.einsum("nd,nd->n", rounded, rounded) / 2
        return cls(vectors, offsets)

    def take(self, rows):
        """Returns the vectors of some rows."""
        vectors = _space(self.vectors, len(rows))
        for start in range(0, len(rows), ROWS):
            vectors[start : start + ROWS] = self.vectors[rows[start : start + ROWS]]
        return ExactVectors(vectors, self.offsets[rows])

    def similarities(self, vectors, rows):
        """Returns the exact similarities `[Q, R]` of queries `[Q, d]` to gallery rows (a slice or indices)."""
        return _float64(vectors) @ _float64(self.vectors[rows]).T - self.offsets[rows]


def _lengths(embeddings):
    lengths = np.empty(len(embeddings))
    for start in range(0, len(embeddings), ROWS):
        block = _float64(embeddings[start : start + ROWS])
        # Scaled first, so that no square overflows or vanishes.
        largest = np.abs(block).max(axis=1, keepdims=True)
        scaled = block / np.where(largest > 0, largest, 1.0)
        lengths[start : start + ROWS] = largest[:, 0] * np.sqrt(np.einsum("nd,nd->n", scaled, scaled))
    return lengths


def _float64(array):
    return np.asarray(array, np.float64)


def _space(like, rows=None):
    """Returns an uninitialised float32 array: in memory, or in a temporary file if `like` is memory-mapped."""
    shape = (len(like) if rows is None else rows, like.shape[1])
    if isinstance(like, np.memmap):
        # Removed from the disk when it is no longer in use.
        return np.memmap(tempfile.TemporaryFile(), np.float32, "w+", shape=shape)
    return np.empty(shape, np.float32)

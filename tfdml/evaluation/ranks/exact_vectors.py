"""Embeddings that are rounded so that their inner products are exact in float64.

Each component is a multiple of 2^-24 times a power of two that its vector does not exceed, except for rounding. So each
product of components of two vectors is a multiple of 2^-48 times both powers, and each partial sum is at most about the
product of both powers. float64, with 53 bits, represents every such sum exactly. So results depend neither on the order
of summation nor on blocks, threads or libraries.
"""

import dataclasses
import functools
import tempfile

import numpy as np

from tfdml.neighbors.clustering import check_finite

STEP = 2.0**-24
# Exact similarities that differ by less count as equal, because float32 embeddings of equal images differ this much.
TIE = 1e-6
# Vectors shorter than this power of two, relative to the longest, are rounded as if they had that length, because the
# range of float32 is limited.
SHORTEST = -100
# Number of rows that are prepared at once.
ROWS = 8192
# Number of rows from which the median is computed.
CENTERED = 8192


@dataclasses.dataclass(frozen=True)
class ExactVectors:
    """Float32 vectors `[N, d]` with exact similarities.

    Similarity is the inner product minus the `offsets` `[N]` of the gallery row, in float64. Offsets are 0 for cosine
    similarity. For Euclidean distance, they are half the squared length, so that the similarity is half of (the query's
    squared length minus the squared distance). Vectors that are compared by distance have been divided by `scale`.
    """

    vectors: np.ndarray
    offsets: np.ndarray
    scale: float = 1.0

    @classmethod
    def of(cls, embeddings, distance="cosine"):
        """Rounds embeddings `[N, d]`, in memory or, if they are memory-mapped, in a temporary file.

        For Euclidean distances, the median of the embeddings is subtracted, so that distances do not depend on the
        origin, and vectors are divided by the length of the longest.
        """
        check_finite(embeddings)
        euclidean = distance == "euclidean"
        # The median of some rows is enough, and outliers do not move it.
        few = embeddings[:: -(-len(embeddings) // CENTERED)] if euclidean else None
        center = np.median(_float64(few), axis=0) if euclidean else 0.0
        lengths = _lengths(embeddings, center)
        divisors = np.full_like(lengths, lengths.max(initial=0.0)) if euclidean else lengths
        divisors = np.where(divisors > 0, divisors, 1.0)
        # Each vector is rounded relative to its own length, so that an outlier does not make others coarse.
        steps = STEP * 2.0 ** np.maximum(np.frexp(lengths / divisors)[1], SHORTEST) if euclidean else STEP
        steps = np.broadcast_to(steps, lengths.shape)[:, None]
        vectors, offsets = _space(embeddings), np.zeros(len(embeddings))
        for start in range(0, len(embeddings), ROWS):
            rows = slice(start, start + ROWS)
            scaled = (_float64(embeddings[rows]) - center) / divisors[rows, None]
            rounded = np.round(scaled / steps[rows]) * steps[rows]
            vectors[rows] = rounded
            if euclidean:
                offsets[rows] = np.einsum("nd,nd->n", rounded, rounded) / 2
        return cls(vectors, offsets, float(divisors[0]) if euclidean and len(divisors) else 1.0)

    @functools.cached_property
    def has_offsets(self):
        """Whether any offset is not 0."""
        return bool(self.offsets.any())

    def take(self, rows):
        """Returns the vectors of some rows."""
        vectors = _space(self.vectors, len(rows))
        for start in range(0, len(rows), ROWS):
            vectors[start : start + ROWS] = self.vectors[rows[start : start + ROWS]]
        return ExactVectors(vectors, self.offsets[rows], self.scale)

    def similarities(self, vectors, rows, out=None):
        """Returns the exact similarities `[Q, R]` of queries `[Q, d]` to gallery rows, stored in `out`."""
        gallery, vectors = self.vectors[rows], _float64(vectors)
        found = np.empty((len(vectors), len(gallery))) if out is None else out
        for start in range(0, len(gallery), ROWS):
            some = slice(start, start + ROWS)
            np.matmul(vectors, _float64(gallery[some]).T, out=found[:, some])
        if self.has_offsets:
            found -= self.offsets[rows]
        return found

    def similarities_of_one(self, vector, rows):
        """Returns the exact similarities `[R]` of a query `[d]` to gallery rows."""
        # einsum instead of BLAS, because each query has its own thread, and BLAS threads would wait for each other.
        return np.einsum("nd,d->n", self.vectors[rows], vector, dtype=np.float64) - self.offsets[rows]

    def ties(self, offsets, rows):
        """Returns the differences up to which similarities count as equal: a number, or `[Q, R]`.

        `offsets` are the offsets of the queries. For Euclidean distance, they are relative to the mean of both vectors'
        squared lengths.
        """
        return TIE * (offsets[:, None] + self.offsets[rows]) if self.has_offsets else TIE


def tie_groups(values, ties, begins):
    """Returns numbers of groups of tied values, `[N]`, ascending.

    Values are ascending within each run. Booleans `[N]` mark the start of each run: a value that is more than a tie
    above the previous one. Each group contains the smallest value of a run that is not in a group yet, and all values
    that are less than a tie above it.
    """
    places = np.flatnonzero(begins)
    firsts = np.repeat(values[places], np.diff(np.append(places, len(values))))
    # The number of ties between each value and the start of its run. Most runs are a single group.
    steps = np.floor((values - firsts) / np.maximum(ties, np.finfo(np.float64).tiny))
    starts = np.array(begins)
    starts[1:] |= np.diff(steps) > 0
    return np.cumsum(starts)


def _lengths(embeddings, center):
    lengths = np.empty(len(embeddings))
    for start in range(0, len(embeddings), ROWS):
        block = _float64(embeddings[start : start + ROWS]) - center
        # Scale first, so that no square overflows or underflows.
        largest = np.abs(block).max(axis=1, keepdims=True)
        scaled = block / np.where(largest > 0, largest, 1.0)
        lengths[start : start + ROWS] = largest[:, 0] * np.sqrt(np.einsum("nd,nd->n", scaled, scaled))
    return lengths


def _float64(array):
    return np.asarray(array, np.float64)


def _space(like, rows=None):
    """Returns an uninitialized float32 array: in memory, or in a temporary file if `like` is memory-mapped."""
    shape = (len(like) if rows is None else rows, like.shape[1])
    if isinstance(like, np.memmap):
        # The file is removed from the disk when it is no longer in use.
        return np.memmap(tempfile.TemporaryFile(), np.float32, "w+", shape=shape)
    return np.empty(shape, np.float32)

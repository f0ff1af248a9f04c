"""Counts negatives ahead of positives with half-precision products, and exactly what these leave in doubt."""

import bisect
import functools
import os
import pathlib

import numpy as np
import tensorflow as tf

from tfdml.evaluation.ranks.counts import count_from_approximate, gpus

# Linux lists the features of the processor in this file.
CPU_FILE = "/proc/cpuinfo"
# Processors that multiply bfloat16 faster than float32 have one of these features.
INSTRUCTIONS = ("avx512_bf16", "amx_bf16")
# Number of rows that are rounded at once.
ROWS = 8192
# Neither vectors nor rounded vectors are longer than this.
LONGEST = 1.006


class HalfProducts:
    """Computes inner products of vectors that are rounded to bfloat16.

    Except for rounding, the lengths of the vectors are at most 1. For rounded vectors x' and y', |x y - x' y'| <= |x -
    x'| |y| + |x'| |y - y'|. Products are summed in float32 and rounded to bfloat16. Results are the 16 bits as an
    integer, which has the order of the numbers, except that negative numbers are below 0 in no particular order.
    """

    def __init__(self, vectors):
        self.vectors = vectors
        blocks = (vectors[start : start + ROWS] for start in range(0, len(vectors), ROWS))
        self._lost = max((_lost(block).max() for block in blocks), default=0.0)
        self._tiles = {}

    def __call__(self, queries, rows):
        """Returns the products of queries `[B, d]` and a slice of the vectors, as integers `[B, R]`."""
        # Round the vectors once, not with every block of queries.
        if rows.start not in self._tiles:
            self._tiles[rows.start] = _rounded(self.vectors[rows])
        products = tf.matmul(_rounded(queries), self._tiles[rows.start], transpose_b=True)
        return tf.bitcast(products, tf.int16).numpy()

    def bounds(self, queries, thresholds):
        """Returns, for each query, two integer arrays that decide which similarities reach each of its thresholds.

        Results below the first array certainly have smaller similarities, and results from the second on certainly do
        not. If the first is 0, no result is certainly smaller.
        """
        counts = [len(each) for each in thresholds]
        values, errors = np.concatenate(thresholds), np.repeat(self.errors(queries), counts)
        # Go one float32 further, because float64 is rounded to float32.
        low = np.nextafter((values - errors).astype(np.float32), np.float32(-np.inf))
        high = np.nextafter((values + errors).astype(np.float32), np.float32(np.inf))
        # The bfloat16 numbers below and above them, with a margin of two, so that the rounding mode does not matter.
        low, high = (np.maximum(each.view(np.int32), 0) >> 16 for each in (low, high))
        low, high = low.astype(np.int16), (high + 2).astype(np.int16)
        ends = np.cumsum(counts)[:-1]
        return list(zip(np.split(low, ends), np.split(high, ends), strict=True))

    def errors(self, queries):
        """Returns the maximum errors `[B]` of the products of queries `[B, d]` before they are rounded."""
        # Each of d products and sums rounds, in an unknown order.
        sums = (4 * queries.shape[1] + 64) * 2.0**-24
        return LONGEST * (_lost(queries) + self._lost + LONGEST * sums)


@functools.cache
def half_products_are_fast():
    """Returns whether this processor multiplies bfloat16 faster than float32 while it sums in float32."""
    # Without oneDNN, TensorFlow computes bfloat16 products in float32 and converts all inputs and outputs.
    if gpus() or os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1").lower() not in ("1", "true"):
        return False
    try:
        flags = pathlib.Path(CPU_FILE).read_text().split()
    except OSError:
        return False
    if not any(flag in flags for flag in INSTRUCTIONS):
        return False
    # A sum in bfloat16 would stop at 256, where adding 1 changes nothing.
    ones = tf.ones([64, 4096], tf.bfloat16)
    return bool(tf.reduce_all(tf.matmul(ones, ones, transpose_b=True) == 4096.0))


def _rounded(vectors):
    return tf.constant(vectors.astype(tf.bfloat16.as_numpy_dtype))


def _lost(vectors):
    """Returns the lengths `[B]` of the rounding errors of vectors."""
    lost = vectors - vectors.astype(tf.bfloat16.as_numpy_dtype).astype(np.float32)
    # The factor allows for the rounding of this sum.
    return 1.001 * np.sqrt(np.einsum("nd,nd->n", lost, lost, dtype=np.float64))


# If more than this fraction of a tile is in doubt, computing all of it in float32 is as fast.
FEW_IN_DOUBT = 1 / 32
# The count for positives with a rank that is deeper than needed.
BEYOND = 2**40


class HalfCounts:
    """Counts with half-precision products, and computes again what these do not decide.

    `floats` are the `FloatCounts` of a gallery in memory that is compared by cosine similarity; for `depths`, see
    `positive_ranks`.
    """

    dtype = None
    most_thresholds = np.inf

    def __init__(self, floats, depths):
        self.floats, self.vectors, self.depths = floats, floats.vectors, depths
        self.products = HalfProducts(self.vectors.vectors)

    @classmethod
    def of(cls, floats, depths):
        """Returns the counts for a gallery, or None if float32 is needed or faster."""
        vectors = floats.vectors
        if depths is None or vectors.has_offsets or isinstance(vectors.vectors, np.memmap):
            return None
        return cls(floats, depths) if half_products_are_fast() else None

    def counter(self, block, members, tile, out):
        """Returns the function that counts; see `FloatCounts.counter`. `out` is not used.

        The count of a positive is `BEYOND` if its rank is deeper than needed.
        """
        results = self.products(block.vectors, tile)
        bounds = self.products.bounds(block.vectors, block.thresholds)
        errors = self.floats.errors(block.vectors)
        first, others = self.depths(block.positives)

        def count(query):
            row, (low, high) = results[query], bounds[query]
            row[members[query]] = -1
            counts = np.full(len(low), BEYOND)
            sure = np.count_nonzero(row >= high[-1])
            if sure >= first[query]:
                return counts
            begin = _first_within(row, high, others[query])
            places = np.flatnonzero((row >= low[begin]) & (row < high[-1]))
            if low[begin] <= 0 or len(places) > FEW_IN_DOUBT * len(row):
                return None
            vector, rows = block.vectors[query], tile.start + places
            # einsum instead of BLAS, because each query has its own thread, and BLAS threads would wait for each other.
            similarities = np.einsum("nd,d->n", self.vectors.vectors[rows], vector)
            thresholds = block.thresholds[query][begin:]

            def exact(near):
                return self.vectors.similarities_of_one(vector, rows[near])

            counts[begin:] = sure + count_from_approximate(similarities, thresholds, errors[query], exact, len(rows))
            return counts

        return count


def _first_within(row, high, depth):
    """Returns the place of the farthest positive with a rank that can be within a depth, or else of the nearest."""
    last = len(high) - 1

    def is_within(place):
        return np.count_nonzero(row >= high[place]) + len(high) - place <= depth

    return bisect.bisect_left(range(last), True, key=is_within)

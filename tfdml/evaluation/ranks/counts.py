"""Counts exactly how many gallery images are at least as similar to a query as thresholds."""

import contextlib
import sys

import numpy as np

from tfdml.runtime.backends import uses_tensorflow

# With more thresholds than this, a row is sorted once instead of being compared with each of them.
SORTED_FROM = 26
# A row is reduced to its candidates if they are fewer than this fraction of it.
FEW_THRESHOLDS = 0.25


def count_at_least(row, thresholds):
    """Returns, for each of the ascending thresholds `[P]`, how many similarities `[G]` are at least as large."""
    if len(thresholds) > SORTED_FROM:
        ordered = np.sort(row[row >= thresholds[0]])
        return len(ordered) - np.searchsorted(ordered, thresholds)
    counts = np.zeros(len(thresholds), np.int64)
    for index, threshold in enumerate(thresholds):
        candidates = row >= threshold
        counts[index] = np.count_nonzero(candidates)
        if not counts[index]:
            break
        if counts[index] < FEW_THRESHOLDS * len(row):
            row = row[candidates]
    return counts


def count_from_approximate(row, thresholds, error, exact, most):
    """Counts as `count_at_least` does, from approximate similarities. Returns None if too many are in doubt.

    An approximate similarity of a row `[G]` decides if it is farther than `error` from a threshold. Minus infinity does
    not count. For similarities that are nearer to any of the ascending thresholds, `exact` maps indices of the row to
    exact similarities. It is called once for all thresholds, for at most `most` indices.
    """
    # Go one float32 further, because float64 is rounded to float32.
    low = np.nextafter((thresholds - error).astype(np.float32), np.float32(-np.inf))
    high = np.nextafter((thresholds + error).astype(np.float32), np.float32(np.inf))
    if len(thresholds) > SORTED_FROM:
        # There are so many thresholds that most candidates are near one of them.
        near = np.flatnonzero(row >= low[0])
        return count_at_least(exact(near), thresholds) if len(near) <= most else None
    counts, doubts, places = np.zeros(len(thresholds), np.int64), {}, None
    for index in range(len(thresholds)):
        candidates = row >= low[index]
        maybe = np.count_nonzero(candidates)
        if not maybe:
            break
        if maybe < FEW_THRESHOLDS * len(row):
            kept = np.flatnonzero(candidates)
            row, places = row[kept], kept if places is None else places[kept]
        counts[index] = np.count_nonzero(row >= high[index])
        if maybe - counts[index] > most:
            return None
        if maybe > counts[index]:
            near = np.flatnonzero((row >= low[index]) & (row < high[index]))
            doubts[index] = near if places is None else places[near]
    if not doubts:
        return counts
    every = np.unique(np.concatenate(list(doubts.values())))
    if len(every) > most:
        return None
    similarities = exact(every)
    for index, near in doubts.items():
        counts[index] += np.count_nonzero(similarities[np.searchsorted(every, near)] >= thresholds[index])
    return counts


# With this many multiplications, TensorFlow may save more time than its import takes.
MANY = 2**40


class Products:
    """Computes inner products of queries and float32 vectors `[N, d]`."""

    def __init__(self, vectors):
        self.vectors = vectors
        self.devices = gpus() if may_use_tensorflow(vectors) else []
        self._on_device = {}

    def __call__(self, queries, rows, out):
        """Computes the products `[B, R]` of queries `[B, d]` and a slice of the vectors, and stores them in `out`."""
        if not self.devices:
            np.matmul(queries, self.vectors[rows].T, out=out)
            return
        shares = np.array_split(queries, len(self.devices))
        with _all_of_float32():
            # Start the work on all devices before waiting for the first.
            begun = [self._begin(device, share, rows) for device, share in zip(self.devices, shares, strict=True)]
            for part, product in zip(np.array_split(out, len(self.devices)), begun, strict=True):
                part[:] = product.numpy()

    def _begin(self, device, queries, rows):
        import tensorflow as tf

        with tf.device(device):
            # Send the vectors once, not with every block of queries.
            if (device, rows.start) not in self._on_device:
                self._on_device[device, rows.start] = tf.constant(self.vectors[rows])
            return tf.matmul(queries, self._on_device[device, rows.start], transpose_b=True)


def may_use_tensorflow(vectors):
    """Returns whether TensorFlow is imported, or is worth importing to compare all vectors `[N, d]`."""
    return uses_tensorflow() and ("tensorflow" in sys.modules or vectors.size * len(vectors) >= MANY)


def gpus():
    """Returns the names of the GPUs."""
    import tensorflow as tf

    return [gpu.name for gpu in tf.config.list_logical_devices("GPU")]


@contextlib.contextmanager
def _all_of_float32():
    """Disables TensorFloat-32, which rounds to 10 bits, so that too many similarities would be near thresholds."""
    import tensorflow as tf

    enabled = tf.config.experimental.tensor_float_32_execution_enabled()
    tf.config.experimental.enable_tensor_float_32_execution(False)
    try:
        yield
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(enabled)


# Computing more than this fraction of a tile's similarities one query at a time is as slow as computing all at once.
FEW_IN_DOUBT = 1 / 32
# Smaller products may underflow to 0 in float32.
SMALLEST = 2.0**-125


class FloatCounts:
    """Counts with float32 products of `ExactVectors`, and computes exactly what these do not decide."""

    #: Type of its products, or None if it allocates them itself.
    dtype = np.float32
    #: With more thresholds, most similarities would be near one of them.
    most_thresholds = SORTED_FROM

    def __init__(self, vectors):
        self.vectors = vectors
        self.products = Products(vectors.vectors)
        self._longest = _lengths(vectors.vectors).max(initial=0.0)
        self._largest_offset = vectors.offsets.max(initial=0.0)

    def counter(self, block, members, tile, out):
        """Returns a function that maps a query's place to how many negatives are as similar as each threshold.

        It returns None for a query with many similarities in doubt. `members` are, for each query of a `QueryBlock`,
        the slice of the tile that has its class. `out` is an array `[B, G]` for the products.
        """
        similarities, errors = self.similarities(block.vectors, tile, out), self.errors(block.vectors)

        def count(query):
            row = similarities[query]
            row[members[query]] = -np.inf

            def exact(places):
                return self.vectors.similarities_of_one(block.vectors[query], tile.start + places)

            return count_from_approximate(row, block.thresholds[query], errors[query], exact, FEW_IN_DOUBT * len(row))

        return count

    def similarities(self, queries, tile, out):
        """Returns approximate similarities of queries `[B, d]` to a slice of the gallery, stored in `out`."""
        self.products(queries, tile, out)
        if self.vectors.has_offsets:
            out -= self.vectors.offsets[tile].astype(np.float32)
        return out

    def errors(self, queries):
        """Returns the maximum errors `[B]` of the similarities of queries `[B, d]`."""
        # Each of d products and sums rounds once. The offset, the threshold and the result add some more rounding.
        products = (queries.shape[1] + 8) * _lengths(queries) * self._longest
        return 2.0**-24 * 1.001 * (products + 4 * self._largest_offset) + queries.shape[1] * SMALLEST


def _lengths(vectors):
    """Returns upper bounds of the lengths of vectors."""
    return 1.001 * np.sqrt(np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64))


class ExactCounts:
    """Counts with exact similarities, in a time that depends only on the number of embeddings."""

    dtype = np.float64
    most_thresholds = np.inf

    def __init__(self, vectors):
        self.vectors = vectors

    def counter(self, block, members, tile, out):
        """Returns the function that counts; for the arguments, see `FloatCounts.counter`."""
        similarities = self.vectors.similarities(block.vectors, tile, out)

        def count(query):
            row = similarities[query]
            row[members[query]] = -np.inf
            return count_at_least(row, block.thresholds[query])

        return count

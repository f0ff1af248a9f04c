"""`StoredVectors`: the column `images` of a split whose rows are vectors, such as features of a network."""

import hashlib
import math

import numpy as np


class StoredVectors:
    """Vectors in place of images: what a head is trained on without the network that made them.

    Stands for an `[N]` array: `vectors[7]` is a vector `[D]`, `vectors[rows]` are the `StoredVectors` of some rows.
    What is memory-mapped stays on the disk.

    Args:
        sources: list of arrays `[M, d]`; a row has what they have there, side by side.
        rows: `[N]` the rows of the sources. Default: all.
    """

    def __init__(self, sources, rows=None):
        self.sources = sources
        self.rows = np.arange(len(sources[0])) if rows is None else rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, rows):
        if isinstance(rows, int | np.integer):
            return self.read([rows])[0]
        return StoredVectors(self.sources, self.rows[rows])

    @property
    def dims(self):
        """The number D of dimensions."""
        return sum(source.shape[1] for source in self.sources)

    def read(self, rows=slice(None)):
        """Returns the vectors of rows, float32 `[n, D]`."""
        chosen = self.rows[rows]
        return np.concatenate([np.asarray(source[chosen], np.float32) for source in self.sources], axis=1)

    def fingerprints(self):
        """Returns an array of N digests, equal where vectors are."""
        rows = range(len(self))
        return np.array([hashlib.blake2b(self[row].tobytes(), digest_size=8).digest() for row in rows], object)

    def picture(self, row):
        """Returns a picture of a vector, uint8 `[side, side, 3]`: a gray square for each number, row by row."""
        vector = self[row]
        low, high = vector.min(), vector.max()
        side = math.isqrt(len(vector) - 1) + 1
        cells = np.zeros(side * side, np.float32)
        cells[: len(vector)] = (vector - low) / max(high - low, np.finfo(np.float32).tiny)
        return np.repeat((255 * cells).astype(np.uint8).reshape(side, side, 1), 3, axis=-1)


def vector_dims(split):
    """Returns the dimensions of a split's vectors; None of a split of images."""
    return split.images.dims if isinstance(split.images, StoredVectors) else None


def refuse_vectors(dataset, doing):
    """Raises a ValueError if a dataset has stored vectors.

    Args:
        dataset: `Dataset`.
        doing: what needs images, at the start of a sentence.
    """
    if vector_dims(dataset.test):
        raise ValueError(f"{doing} needs images; {dataset.name} has vectors, which stand for them.")

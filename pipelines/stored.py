"""Images of a split that are no files: records of shards, and stored vectors."""

import hashlib
import math
import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

# Records that are read at once from far away.
THREADS = 16


class Places(NamedTuple):
    """Where records are, `[N]` each: number of the shard, first byte in it, bytes, and CRC-32 of the record."""

    shard: np.ndarray
    offset: np.ndarray
    length: np.ndarray
    checksum: np.ndarray

    def where(self, rows):
        return Places(*(column[rows] for column in self))


class PackedImages:
    """Contents of image files, read from shards, local or of `tf.io.gfile`, when they are asked for.

    Stands for an `[N]` array of bytes: `images[7]` is the content of a file, `images[rows]` are the `PackedImages` of
    some rows. Only the `Places` are in memory.
    """

    def __init__(self, paths, places):
        self.paths, self.places = paths, places

    def __len__(self):
        return len(self.places.offset)

    def __getitem__(self, rows):
        if isinstance(rows, int | np.integer):
            return self.read([rows])[0]
        return PackedImages(self.paths, self.places.where(rows))

    def read(self, rows):
        """Returns the contents of rows, an object array."""
        found = np.empty(len(rows), object)
        about = [column[rows].tolist() for column in self.places]
        if self.paths and is_remote(self.paths[0]):
            # Most of the time is waiting.
            with ThreadPoolExecutor(THREADS) as threads:
                found[:] = list(threads.map(self._record, *about))
        else:
            found[:] = list(map(self._record, *about))
        return found

    def tolist(self):
        """Returns the contents of all rows."""
        return self.read(range(len(self))).tolist()

    def fingerprints(self):
        """Returns length and checksum of the records, `[N, 2]`, which differ where a record does."""
        return np.stack([self.places.length, self.places.checksum], axis=1)

    def _record(self, shard, offset, length, checksum):
        path = self.paths[shard]
        try:
            content = read_part(path, offset, length)
        except OSError as error:
            raise ValueError(f"{path} cannot be read ({error.strerror or error}).") from error
        # A short record has another checksum.
        if zlib.crc32(content) != checksum:
            raise ValueError(f"{path} is damaged at byte {offset:,}: pack the dataset anew, or copy the shard again.")
        return content


def is_remote(path):
    """Returns whether a path is one that only `tf.io.gfile` reads, such as `gs://bucket/file`."""
    return "://" in path


def local(path, what):
    """Returns a path, or raises a ValueError if it is remote: as a local one it would be a folder named `gs:`.

    `what` is how the error begins, before the path, such as `--out=`.
    """
    if is_remote(str(path)):
        raise ValueError(f"{what}{path} is on no file system of this machine; mount it, or copy the files.")
    return path


def read_part(path, offset, length):
    """Returns a part of a file. It is opened each time, which is cheap, so that any number of shards can be read."""
    if is_remote(path):
        import tensorflow as tf

        try:
            with tf.io.gfile.GFile(path, "rb") as file:
                file.seek(offset)
                return file.read(length)
        except tf.errors.OpError as error:
            raise OSError(error.message) from None
    # A pipe that nobody writes to would wait here for ever; reading a part of it is an error.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.pread(descriptor, length, offset)
    finally:
        os.close(descriptor)


class StoredVectors:
    """Vectors in place of images: what a head is trained on without the network that made them.

    Stands for an `[N]` array: `vectors[7]` is a vector `[D]`, `vectors[rows]` are the `StoredVectors` of some rows. A
    row has what the `sources`, arrays `[M, d]`, have there, side by side. What is memory-mapped stays on the disk.
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
    """Raises a ValueError if a dataset has stored vectors; `doing` is what needs images, at the start of a sentence."""
    if vector_dims(dataset.test):
        raise ValueError(f"{doing} needs images, but the dataset {dataset.name} has vectors instead.")

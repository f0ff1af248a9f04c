"""Images of a split that are not files: records in shards, and stored vectors."""

import hashlib
import math
import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

# Number of records to read in parallel from a remote file system.
THREADS = 16


class Places(NamedTuple):
    """Positions of records, `[N]` each: index of the shard, first byte, number of bytes, and CRC-32 of the record."""

    shard: np.ndarray
    offset: np.ndarray
    length: np.ndarray
    checksum: np.ndarray


class StoredImages:
    """Contents of image files inside larger files, which are read when they are needed.

    It behaves like an `[N]` array of bytes: `images[7]` is the content of a file, and `images[rows]` are the
    `StoredImages` of some rows. Only the `places`, a named tuple of columns `[N]`, are in memory. `source` is what
    subclasses read from.
    """

    def __init__(self, source, places):
        self.source, self.places = source, places

    def __len__(self):
        return len(self.places[0])

    def __getitem__(self, rows):
        if isinstance(rows, int | np.integer):
            return self.read([rows])[0]
        return type(self)(self.source, type(self.places)(*(column[rows] for column in self.places)))

    def read(self, rows):
        """Returns the contents of rows as an object array."""
        found = np.empty(len(rows), object)
        found[:] = [self.record(*place) for place in self.places_of(rows)]
        return found

    def places_of(self, rows):
        """Returns an iterator over the place of each row, a tuple."""
        return zip(*(column[rows].tolist() for column in self.places), strict=True)

    def record(self, *place):
        """Returns the content of a file at a place. Raises a ValueError, caused by another error if all would fail."""
        raise NotImplementedError

    def tolist(self):
        """Returns the contents of all rows."""
        return self.read(range(len(self))).tolist()

    def fingerprints(self):
        """Returns integers `[N, 2]`, which identify the rows."""
        raise NotImplementedError

    def modified(self):
        """Returns the times at which the files were modified, if `fingerprints` do not depend on their contents."""
        return []

    def name_of(self, row):
        """Returns the name of a row for messages."""
        return f"image number {row}"


class PackedImages(StoredImages):
    """Contents of image files in shards with `Places`. `source` are paths, local or of `tf.io.gfile`."""

    def read(self, rows):
        if not (self.source and is_remote(self.source[0])):
            return super().read(rows)
        found = np.empty(len(rows), object)
        # Most of the time is spent waiting for the network.
        with ThreadPoolExecutor(THREADS) as threads:
            found[:] = list(threads.map(lambda place: self.record(*place), self.places_of(rows)))
        return found

    def fingerprints(self):
        """Returns the length and checksum of each record, `[N, 2]`, which identify it."""
        return np.stack([self.places.length, self.places.checksum], axis=1)

    def record(self, shard, offset, length, checksum):
        path = self.source[shard]
        try:
            content = read_part(path, offset, length)
        except OSError as error:
            raise ValueError(f"{path} cannot be read ({error.strerror or error}).") from error
        # This also finds truncated records.
        if zlib.crc32(content) != checksum:
            raise ValueError(f"{path} is damaged at byte {offset:,}. Copy the shard again, or pack the dataset again.")
        return content


def is_remote(path):
    """Returns whether only `tf.io.gfile` can read a path, such as `gs://bucket/file`."""
    return "://" in path


def local(path, what):
    """Returns a path, or raises a ValueError if it is remote, because it would become a local folder named `gs:`.

    `what` is the start of the error before the path, such as `--out=`.
    """
    if is_remote(str(path)):
        raise ValueError(f"{what}{path} is not on a file system of this machine. Mount it, or copy the files.")
    return path


def read_part(path, offset, length):
    """Returns a part of a file. It opens the file each time, which is cheap, so that there can be many shards."""
    if is_remote(path):
        import tensorflow as tf

        try:
            with tf.io.gfile.GFile(path, "rb") as file:
                file.seek(offset)
                return file.read(length)
        except tf.errors.OpError as error:
            raise OSError(error.message) from None
    # Without O_NONBLOCK, opening a pipe could wait forever. Reading at an offset of a pipe is an error.
    descriptor = os.open(path, os.O_RDONLY | sum(vars(os).get(flag, 0) for flag in ("O_NONBLOCK", "O_BINARY")))
    try:
        if "pread" not in vars(os):
            # On Windows. No other thread uses this descriptor.
            os.lseek(descriptor, offset, os.SEEK_SET)
            return os.read(descriptor, length)
        return os.pread(descriptor, length, offset)
    finally:
        os.close(descriptor)


class StoredVectors:
    """Vectors instead of images, to train a head without the network that computed them.

    It behaves like an `[N]` array: `vectors[7]` is a vector `[D]`, and `vectors[rows]` are the `StoredVectors` of some
    rows. A vector is the concatenation of a row of all `sources`, arrays `[M, d]`. Memory-mapped sources stay on disk.
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
        """Number D of dimensions."""
        return sum(source.shape[1] for source in self.sources)

    def read(self, rows=slice(None)):
        """Returns the vectors of rows as float32 `[n, D]`."""
        chosen = self.rows[rows]
        return np.concatenate([np.asarray(source[chosen], np.float32) for source in self.sources], axis=1)

    def fingerprints(self):
        """Returns N digests, which are equal for equal vectors."""
        rows = range(len(self))
        return np.array([hashlib.blake2b(self[row].tobytes(), digest_size=8).digest() for row in rows], object)

    def picture(self, row):
        """Returns a plot of a vector, uint8 `[side, side, 3]`, with a gray pixel for each number, row by row."""
        vector = self[row]
        low, high = vector.min(), vector.max()
        side = math.isqrt(len(vector) - 1) + 1
        cells = np.zeros(side * side, np.float32)
        cells[: len(vector)] = (vector - low) / max(high - low, np.finfo(np.float32).tiny)
        return np.repeat((255 * cells).astype(np.uint8).reshape(side, side, 1), 3, axis=-1)


def vector_dims(split):
    """Returns the number of dimensions of a split's vectors, or None if it contains images."""
    return split.images.dims if isinstance(split.images, StoredVectors) else None


def refuse_vectors(dataset, doing):
    """Raises a ValueError if a dataset has stored vectors. The message starts with `doing`, which needs images."""
    if vector_dims(dataset.test):
        raise ValueError(f"{doing} needs images, but the dataset {dataset.name} has vectors instead.")

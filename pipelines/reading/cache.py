"""Cache of image files or pixels, in memory or in a folder."""

import contextlib
import hashlib
import itertools
import logging
import os
import shutil
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import numpy as np

from pipelines.archives import ParquetImages
from pipelines.checks import as_decodable
from pipelines.images.decoding import converted, read_image
from pipelines.operations import tf
from pipelines.reading.unreadable import cannot_read
from pipelines.stored import StoredImages, vector_dims
from tfdml.console.progress_bar import ProgressBar
from tfdml.console.startup import tensorflow_reason
from tfdml.registry.fields import Declared

# A folder with a million files, one per row, would be slow on some disks.
ROWS_IN_FOLDER = 1000
# A process that is still writing adds a folder of rows within this many seconds.
SURELY_KILLED = 24 * 60 * 60


def rows_on_disk(folder):
    """Returns a function from a row number (int64) to the row's bytes in a folder written by `write_rows`."""
    for part in folder.iterdir():
        with os.scandir(part) as entries:
            # TensorFlow would wait forever for a pipe.
            wrong = next((entry.path for entry in entries if not entry.is_file()), None)
        if wrong:
            raise OSError(f"{wrong} is not a file. Remove {folder}, so that tfdml creates the cache again.")

    def read(row):
        part, name = tf.strings.as_string(row // ROWS_IN_FOLDER), tf.strings.as_string(row)
        return tf.io.read_file(tf.strings.join([str(folder), part, name], "/"))

    return read


def write_rows(folder, rows, count):
    """Writes `count` rows, an iterable of bytes, to a new folder, which appears when it is complete."""
    logging.getLogger(__name__).info(
        "Caching %d images in %s for this and later runs. Remove the folder when you need the space.", count, folder
    )
    # Remove unfinished folders if their process was killed, but not if it is still writing.
    for leftover in folder.parent.glob(".writing-*"):
        # Another process may remove it at the same time.
        with contextlib.suppress(FileNotFoundError):
            if time.time() - leftover.stat().st_mtime > SURELY_KILLED:
                shutil.rmtree(leftover, ignore_errors=True)
    unfinished = folder.with_name(f".writing-{uuid.uuid4().hex}")
    try:
        for number, row in enumerate(rows):
            file = unfinished / str(number // ROWS_IN_FOLDER) / str(number)
            if number % ROWS_IN_FOLDER == 0:
                file.parent.mkdir(parents=True)
            file.write_bytes(row)
        os.sync()
        unfinished.rename(folder)
    except OSError as error:
        if folder.exists():
            return  # Another process was faster and has written the same rows.
        raise OSError(
            f"Cannot cache images in {folder}: {error.strerror or error}. Make room, set another folder with "
            "--cache_dir, or use --cache=none."
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


MEMINFO = Path("/proc/meminfo")


def free_memory():
    """Returns the available memory in bytes, or half of the machine's memory if it is unknown."""
    if MEMINFO.is_file():
        for line in MEMINFO.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


FLOAT = 4


class PackedReader:
    """Function from a row to its record in a shard. `many`, for several rows at once, is much faster."""

    def __init__(self, images):
        self._images = images

    def __call__(self, row):
        return tf.reshape(self.many(tf.reshape(row, [1])), [])

    def many(self, rows):
        """Returns the contents `[N]` of rows `[N]`."""
        # TensorFlow has no operation that reads a part of a file. The Python calls are cheap for many rows at once.
        contents = tf.numpy_function(self._read, [rows], tf.string, stateful=False)
        return tf.ensure_shape(contents, [None])

    def _read(self, rows):
        contents = self._images.read(np.asarray(rows))
        contents[:] = list(map(as_decodable, contents))
        return contents


def vector_reader(vectors):
    """Returns a function from rows `[n]` to the vectors `[n, D]` of a `StoredVectors`.

    Vectors are copied into memory if they need at most 25% of the free memory.
    """
    if len(vectors) * vectors.dims * FLOAT <= free_memory() / 4:
        # The memory of a GPU is reserved for the model.
        with tf.device("CPU"):
            held = tf.constant(vectors.read())
        return lambda rows: tf.gather(held, rows)

    def read(rows):
        gathered = tf.numpy_function(vectors.read, [rows], tf.float32, stateful=False)
        return tf.ensure_shape(gathered, [None, vectors.dims])

    return read


def file_reader(split):
    """Returns a function from a row to the contents of its image file."""
    if isinstance(split.images, StoredImages):
        return PackedReader(split.images)
    images, read = tf.constant(split.images), converted if split.encoded else read_image
    return lambda row: read(images[row])


KINDS = ("none", "bytes", "pixels")
# Part of the names of caches on disk. Increase it when the cached bytes change.
VERSION = 1
# Number of threads that read rows, and of rows that wait for a thread.
THREADS = 16
ROWS_AT_ONCE = 256


class Cache(Declared):
    """Cache for the rows of splits, in memory if they fit into `memory` bytes, and otherwise on disk for later runs.

    The kind `bytes` caches unchanged files. The kind `pixels` caches images after decoding and after the first steps of
    the transform, which do not depend on a seed. If `tolerant`, unreadable rows are cached as unreadable. Otherwise
    they are an error.
    """

    def __init__(self, kind: Literal["none", "bytes", "pixels"], *, memory, folder, tolerant=False, verbose=0):
        self.kind, self.folder, self.tolerant, self.verbose = kind, Path(folder), tolerant, verbose
        self._memory, self._readers = memory, {}

    def through(self, split, preprocessor):
        """Fills the cache with a split and returns `(read, preprocess)` for `pipelines.build`, which use the cache."""
        # An image in a Parquet file is read together with others, so its bytes are worth keeping.
        at_hand = split.encoded and not isinstance(split.images, ParquetImages)
        if self.kind == "none" or vector_dims(split) or (self.kind == "bytes" and at_hand):
            return None, preprocessor
        fetch = file_reader(split)
        if self.kind == "bytes":
            return self._reader(split, "", fetch), preprocessor

        boxes = None if split.boxes is None else tf.constant(split.boxes)

        def make(row):
            box = None if boxes is None else boxes[row]
            return tf.io.serialize_tensor(preprocessor.cacheable_pixels(fetch(row), box))

        def preprocess(cached, seed, box=None):
            del box  # Cached pixels are already cropped.
            pixels = tf.io.parse_tensor(cached, preprocessor.cacheable_type)
            return preprocessor.from_cached_pixels(pixels, seed)

        return self._reader(split, preprocessor.name, make), preprocess

    def _reader(self, split, name, make):
        """Returns the function from a row to its cached result of `make`. There is one for each split and name."""
        key = id(split), name
        if key not in self._readers:
            # Keeping a reference to the split ensures that no other split gets its id.
            self._readers[key] = self._filled(split, name, make), split
        return self._readers[key][0]

    def _filled(self, split, name, make):
        # A cache with unreadable rows is only for tolerant runs.
        tolerant = " tolerant" if self.tolerant else ""
        folder = self.folder / f"{self.kind}-{_digest(split, name + tolerant)}"
        if folder.exists():
            return rows_on_disk(folder)
        rows, in_memory, size = self._made(split, make), [], 0
        for row in rows:
            in_memory.append(row)
            size += len(row)
            if size > self._memory:
                write_rows(folder, itertools.chain(in_memory, rows), len(split))
                return rows_on_disk(folder)
        self._memory -= size
        cached = tf.constant(in_memory)
        return lambda row: cached[row]

    def _made(self, split, make):
        """Yields the result of `make` for each row in order, as bytes."""
        bar = ProgressBar(len(split), "image", verbose=self.verbose)
        # Without a graph, an image of 64 pixels needs several times as long.
        make = tf.function(make, autograph=False).get_concrete_function(tf.TensorSpec([], tf.int64))

        def attempt(row):
            try:
                return make(tf.constant(row, tf.int64)).numpy()
            except tf.errors.OpError as error:
                if self.tolerant:
                    # Files and images are never empty, so reading an empty row fails again.
                    return b""
                raise ValueError(cannot_read(split, row, tensorflow_reason(error))) from error

        with ThreadPoolExecutor(THREADS) as threads:
            for first in range(0, len(split), ROWS_AT_ONCE):
                rows = range(first, min(first + ROWS_AT_ONCE, len(split)))
                yield from threads.map(attempt, rows)
                bar.add(len(rows))


def _digest(split, name):
    """Returns a digest of a split's rows, which changes when a file or a box changes."""
    digest = hashlib.sha256(f"{VERSION} {name}".encode())
    packed = isinstance(split.images, StoredImages)
    if packed:
        boxes = b"" if split.boxes is None else split.boxes.tobytes()
        times = np.array(split.images.modified(), np.int64).tobytes()
        digest.update(split.images.fingerprints().tobytes() + boxes + times)
    for row, image in enumerate(() if packed else split.images):
        if split.encoded:
            identity = hashlib.sha256(image).hexdigest()
        else:
            status = os.stat(image) if os.path.exists(image) else None
            identity = (os.path.abspath(image), status and (status.st_size, status.st_mtime_ns))
        box = None if split.boxes is None else split.boxes[row].tolist()
        digest.update(repr((identity, box)).encode(errors="surrogateescape"))
    return digest.hexdigest()[:32]

"""The cache of image files or pixels: each image is fetched, or decoded, once."""

import hashlib
import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import tensorflow as tf

from pipelines.datasets.packed_images import PackedImages
from pipelines.datasets.stored_vectors import vector_dims
from pipelines.reading.cached_rows import rows_in_memory, rows_on_disk, write_rows
from pipelines.reading.file_reader import file_reader
from pipelines.reading.unreadable import cannot_read
from tfdml.console.progress_bar import ProgressBar
from tfdml.console.startup import tensorflow_reason
from tfdml.registry.fields import Declared

KINDS = ("none", "bytes", "pixels")
# Part of the names of caches on disk: raise it when the cached bytes change.
VERSION = 1
# Threads that read rows, and rows that wait for a thread.
THREADS = 16
ROWS_AT_ONCE = 256


class Cache(Declared):
    """Caches the rows of splits, in memory as far as they fit, and else on disk.

    Args:
        kind: `bytes` caches files as they are, `pixels` caches images decoded, after those first steps of the
            transform that do not depend on a seed; `none` caches nothing.
        memory: bytes of memory for all splits together.
        folder: folder for splits that do not fit, where the next run finds them.
        tolerant: whether rows that cannot be read are cached as unreadable; they are an error otherwise.
        verbose: Keras' verbosity of the progress bar.
    """

    def __init__(self, kind: Literal["none", "bytes", "pixels"], *, memory, folder, tolerant=False, verbose=0):
        self.kind, self.folder, self.tolerant, self.verbose = kind, Path(folder), tolerant, verbose
        self._memory, self._readers = memory, {}

    def through(self, split, preprocessor):
        """Fills the cache with a split, and returns `(read, preprocess)` for `pipelines.build` that use it.

        Args:
            split: `pipelines.datasets.Split`.
            preprocessor: `pipelines.preprocessor.Preprocessor`.
        """
        if self.kind == "none" or vector_dims(split) or (self.kind == "bytes" and split.encoded):
            return None, preprocessor
        fetch = file_reader(split)
        if self.kind == "bytes":
            return self._reader(split, "", lambda row: fetch(row)), preprocessor

        boxes = None if split.boxes is None else tf.constant(split.boxes)

        def make(row):
            box = None if boxes is None else boxes[row]
            return tf.io.serialize_tensor(preprocessor.cacheable_pixels(fetch(row), box))

        def preprocess(cached, seed, box=None):
            del box  # Cached pixels are cropped already.
            pixels = tf.io.parse_tensor(cached, preprocessor.cacheable_type)
            return preprocessor.from_cached_pixels(pixels, seed)

        return self._reader(split, preprocessor.name, make), preprocess

    def _reader(self, split, name, make):
        """Returns the function from a row to what `make` made of it; one for each split and name."""
        known = self._readers.get((id(split), name))
        if known is None:
            # The split stays referenced, so that no other can have its id.
            known = self._readers[id(split), name] = (self._filled(split, name, make), split)
        return known[0]

    def _filled(self, split, name, make):
        # A cache with unreadable rows serves tolerant runs alone.
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
        return rows_in_memory(in_memory)

    def _made(self, split, make):
        """Yields what `make` makes of each row, as bytes, in order."""
        bar = ProgressBar(len(split), "image", verbose=self.verbose)
        # Operation by operation in Python, an image of 64 pixels takes several times as long.
        make = tf.function(make, autograph=False).get_concrete_function(tf.TensorSpec([], tf.int64))
        with ThreadPoolExecutor(THREADS) as threads:
            for first in range(0, len(split), ROWS_AT_ONCE):
                rows = range(first, min(first + ROWS_AT_ONCE, len(split)))
                yield from threads.map(lambda row: self._attempt(split, row, make), rows)
                bar.add(len(rows))

    def _attempt(self, split, row, make):
        try:
            return make(tf.constant(row, tf.int64)).numpy()
        except tf.errors.OpError as error:
            if self.tolerant:
                # Files and images are never empty, so reading this fails again.
                return b""
            raise ValueError(cannot_read(split, row, tensorflow_reason(error))) from error


def _digest(split, name):
    """Returns a digest of a split's rows, which changes when a file or a box changes."""
    digest = hashlib.sha256(f"{VERSION} {name}".encode())
    if isinstance(split.images, PackedImages):
        boxes = b"" if split.boxes is None else split.boxes.tobytes()
        digest.update(split.images.fingerprints().tobytes() + boxes)
        return digest.hexdigest()[:32]
    for row, image in enumerate(split.images):
        if split.encoded:
            about = hashlib.sha256(image).hexdigest()
        else:
            found = os.stat(image) if os.path.exists(image) else None
            about = (os.path.abspath(image), found and (found.st_size, found.st_mtime_ns))
        box = None if split.boxes is None else split.boxes[row].tolist()
        digest.update(repr((about, box)).encode(errors="surrogateescape"))
    return digest.hexdigest()[:32]

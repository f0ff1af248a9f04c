"""Finds images that cannot be read, names them in errors, and replaces them in batches."""

import contextlib
import hashlib
import io
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from pipelines.checks import as_decodable, wrong_header
from pipelines.images.decoding import decode, image_of, jpeg_orientation, why_costly
from pipelines.operations import OPERATION_ERRORS, tf
from pipelines.sampling import each_alone, group_by_class
from pipelines.sampling.draws import Stream, shuffled_index, stream_key
from tfdml.console.startup import tensorflow_reason
from tfdml.files.checked import read_bytes
from tfdml.runtime.backends import uses_tensorflow

# Number of images to decode in parallel.
THREADS = 8
READING_ERRORS = ()
if uses_tensorflow():
    READING_ERRORS = (tf.errors.InvalidArgumentError, tf.errors.NotFoundError, tf.errors.PermissionDeniedError)


def is_of_pipeline(error):
    """Returns whether a TensorFlow error may be due to an image that cannot be read or decoded.

    TensorFlow names each operation that an error has passed through. Errors in the dataset pass through the operation
    that gets the next batch. Errors in the model, such as a label that the loss does not know, do not.
    """
    return isinstance(error, READING_ERRORS) and "IteratorGetNext" in error.message


def find_unreadable(split):
    """Returns the first row of a split that cannot be read or decoded, `(row, reason)`, or None."""
    return _first(range(len(split)), lambda row: why_unreadable(split, row))


def find_unreadable_class(split):
    """Returns the rows of the first class without a readable image, `(rows, reason)`, or None."""
    rows, starts, sizes = group_by_class(split.labels)

    def why(group):
        reason = why_unreadable(split, group[0])
        return reason if reason and all(why_unreadable(split, row) for row in group[1:]) else None

    return _first([rows[start : start + size] for start, size in zip(starts, sizes, strict=True)], why)


def _first(items, why):
    """Returns the first item for which `why` returns a reason, and the reason; None if all can be read."""
    threads = ThreadPoolExecutor(THREADS)
    try:
        found = zip(items, threads.map(why, items), strict=True)
        return next(((item, reason) for item, reason in found if reason), None)
    finally:
        threads.shutdown(cancel_futures=True)


def why_unreadable(split, row):
    """Returns why a row cannot be read or decoded, or None if it can."""
    try:
        image_of(split, row)
    except OPERATION_ERRORS as error:
        return tensorflow_reason(error)
    except ValueError as error:
        # The image is in a shard that cannot be read.
        return str(error)
    return None


@contextlib.contextmanager
def _naming(sentence, blames=is_of_pipeline):
    """Converts a TensorFlow error that `blames` an image to a ValueError with the `sentence()` about it, if any."""
    try:
        yield
    except OPERATION_ERRORS as error:
        message = sentence() if blames(error) else None
        if message is None:
            raise
        raise ValueError(message) from error


def naming_image(split, blames=is_of_pipeline):
    """Returns a context manager that adds the name of the image to a TensorFlow error that `blames` an image."""

    def sentence():
        if found := find_unreadable(split):
            row, reason = found
            name = "" if split.encoded else f", {split.name_of(row)},"
            return f"Image {row}{name} cannot be read: {reason}."
        return None

    return _naming(sentence, blames)


def naming_unreadable(train, others, *, tolerant):
    """Returns a context manager that adds the name of the image to an error in the input pipeline.

    All images in the splits `others` and in `train`, which may be None, must be readable. If `tolerant`, bad images in
    `train` are replaced with other images of their class.
    """

    def sentence():
        # If bad images are tolerated, the error is due to a class without any readable image.
        if tolerant and train and (found := find_unreadable_class(train)):
            rows, reason = found
            return (
                f"Cannot read any of the {len(rows)} images of a class, such as {train.name_of(rows[0])}: {reason}. "
                "Replace them or remove the class."
            )
        # The evaluation split may be the same object as the test split.
        splits = {id(split): split for split in (others if tolerant else [train, *others]) if split}
        unreadable = ((split, find_unreadable(split)) for split in splits.values())
        return next((cannot_read(split, *found) for split, found in unreadable if found), None)

    return _naming(sentence)


def cannot_read(split, row, reason):
    """Returns the error message for an image that a run cannot read."""
    return f"Cannot read {split.name_of(row)}: {reason}. Replace it or remove it."


# Number of images of a class that are tried, one after another, before the run stops.
TRIES = 32


class Substitutes:
    """Chooses rows that replace unreadable rows, and remembers the unreadable rows.

    The choice depends only on the seed and on the position in the run, so a resumed run sees the same images. `labels`
    are the integer class labels `[N]` of the rows. If each row has its own class, any other row is a substitute.
    """

    def __init__(self, labels):
        labels = np.zeros_like(labels) if each_alone(labels) else labels
        rows, starts, sizes = group_by_class(labels)
        places = np.empty_like(rows)
        places[rows] = np.arange(len(rows)) - np.repeat(starts, sizes)
        self._rows = tf.constant(rows)
        of_class = np.unique(labels, return_inverse=True)[1]
        self._tables = [tf.constant(table) for table in (starts[of_class], sizes[of_class], places)]
        # The input pipeline runs on the host.
        with tf.device("CPU:0"):
            self.unreadable = tf.Variable(tf.zeros(len(rows), tf.bool), trainable=False)

    def candidates(self, row, seed, number):
        """Returns rows `[1 + TRIES]` to try one after another: the row itself, then shuffled others of its class.

        `number` is the position of the image, counted over all batches of the run.
        """
        start, size, place = (table[row] for table in self._tables)
        others = tf.maximum(size - 1, 1)
        turns = tf.range(TRIES, dtype=tf.int64) % others
        keys = tf.fill([TRIES], stream_key(seed, Stream.SUBSTITUTES, number))
        steps = 1 + shuffled_index(turns, keys, tf.fill([TRIES], others))
        return tf.concat([[row], tf.gather(self._rows, start + (place + steps) % size)], 0)

    def note(self, rows, taken):
        """Marks the `rows` `[B]` as unreadable that were replaced with another row."""
        missing = tf.boolean_mask(rows, rows != taken)
        self.unreadable.scatter_update(tf.IndexedSlices(tf.ones_like(missing, tf.bool), missing))


# Number of rows that wait for a thread: enough to keep the threads busy, but few enough to stop quickly.
ROWS_AT_ONCE = 256


class Verdict(NamedTuple):
    """The result of the check of an image."""

    # Why the image is bad, or None if it is good.
    reason: str | None
    # Digest of its file, or None without a file.
    digest: bytes | None
    # Shorter side in pixels, or None if the image is bad.
    side: int | None = None


def verify(split, *, min_side, threads, on_rows=lambda count: None):
    """Verifies all rows of a split; returns a `Verdict` for each, in order.

    Images with a side shorter than `min_side` pixels are bad. `on_rows` is called with the number of further rows that
    are done.
    """
    # The function is traced before the threads start, because otherwise each thread would trace it.
    _decoded_size.get_concrete_function()
    verdicts = []
    with ThreadPoolExecutor(threads) as pool:
        for first in range(0, len(split), ROWS_AT_ONCE):
            rows = range(first, min(first + ROWS_AT_ONCE, len(split)))
            verdicts += pool.map(lambda row: _verdict(split, row, min_side), rows)
            on_rows(len(rows))
    return verdicts


def _verdict(split, row, min_side):
    try:
        contents = split.images[row]
        if not split.encoded:
            contents = read_bytes(contents)
    except OSError as error:
        return Verdict(error.strerror or "is not a file", None)
    except ValueError as error:
        # The image is in a shard that cannot be read.
        return Verdict(str(error), None)
    box = None if split.boxes is None else split.boxes[row]
    reason, side = _judged(contents, box, min_side)
    return Verdict(reason, hashlib.blake2b(contents, digest_size=16).digest(), side)


@tf.function(input_signature=[tf.TensorSpec([], tf.string)])
def _decoded_size(contents):
    """Returns the upright height and width, and whether they are swapped in the stored image, to which boxes refer."""
    size = tf.shape(decode(contents))[:2]
    turned = tf.cond(tf.io.is_jpeg(contents), lambda: jpeg_orientation(contents) > 4, lambda: False)
    return size, turned


def _judged(contents, box, min_side):
    """Returns why an image file is bad (or None), and its shorter side in pixels."""
    if not contents:
        return "is empty", None
    reason = wrong_header(io.BytesIO(contents)) or why_costly(contents)
    if reason:
        return reason, None
    try:
        (height, width), turned = (part.numpy() for part in _decoded_size(tf.constant(as_decodable(contents))))
    except OPERATION_ERRORS as error:
        return f"cannot be decoded ({tensorflow_reason(error)})", None
    if min(height, width) < min_side:
        return f"has {width} x {height} pixels; expected at least {min_side} on each side", None
    if turned:
        height, width = width, height
    if box is not None and not (box[0] < min(box[2], width) and box[1] < min(box[3], height) and min(box[2:]) > 0):
        return f"has {width} x {height} pixels, and its box {box.tolist()} is not inside", None
    return None, int(min(height, width))


def classes_without_image(split, verdicts):
    """Returns the names of the classes without a good image."""
    usable = {label for label, verdict in zip(split.labels.tolist(), verdicts, strict=True) if not verdict.reason}
    return [split.class_name(label) for label in sorted(set(split.labels.tolist()) - usable)]


def copies(train, test):
    """Returns pairs of a training row and a test row with byte-for-byte identical files."""
    rows = {verdict.digest: row for row, verdict in enumerate(train) if verdict.digest}
    return [(rows[verdict.digest], row) for row, verdict in enumerate(test) if verdict.digest in rows]

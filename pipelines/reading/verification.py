"""Verifies every image of a split: that it exists, can be decoded, and is large enough."""

import hashlib
import io
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import tensorflow as tf

from pipelines.datasets.decoding_cost import why_costly
from pipelines.datasets.header_checks import as_decodable, wrong_header
from pipelines.images.decoding import decode
from pipelines.images.image_headers import jpeg_orientation
from tfdml.console.startup import tensorflow_reason
from tfdml.files.checked import read_bytes

# Rows that wait for a thread at once: enough to keep threads busy, few enough to be stopped soon.
ROWS_AT_ONCE = 256


class Verdict(NamedTuple):
    """The result for an image.

    Args:
        reason: why it is bad; None: it is not.
        digest: of its file; None if there is no file.
        side: pixels of its shorter side; None if it is bad.
    """

    reason: str | None
    digest: bytes | None
    side: int | None = None


def verify(split, *, min_side, threads, on_rows=lambda count: None):
    """Verifies all rows of a split, and returns a `Verdict` for each, in order.

    Args:
        split: `pipelines.datasets.Split`.
        min_side: images with a shorter side are bad, pixels.
        threads: images that are decoded at once.
        on_rows: function that is called with the number of further rows that are done.
    """
    # Traced before the threads start, or each would trace it.
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
        return Verdict(error.strerror or "is no file", None)
    except ValueError as error:
        # Of a shard.
        return Verdict(str(error), None)
    box = None if split.boxes is None else split.boxes[row]
    reason, side = _judged(contents, box, min_side)
    return Verdict(reason, hashlib.blake2b(contents, digest_size=16).digest(), side)


@tf.function(input_signature=[tf.TensorSpec([], tf.string)])
def _decoded_size(contents):
    """Returns height and width upright, and whether the stored image, to which boxes refer, has them exchanged."""
    size = tf.shape(decode(contents))[:2]
    turned = tf.cond(tf.io.is_jpeg(contents), lambda: jpeg_orientation(contents) > 4, lambda: False)
    return size, turned


def _judged(contents, box, min_side):
    """Returns why an image file is bad, or None, and the pixels of its shorter side."""
    if not contents:
        return "is empty", None
    reason = wrong_header(io.BytesIO(contents)) or why_costly(contents)
    if reason:
        return reason, None
    try:
        (height, width), turned = (part.numpy() for part in _decoded_size(tf.constant(as_decodable(contents))))
    except tf.errors.OpError as error:
        return f"cannot be decoded ({tensorflow_reason(error)})", None
    if min(height, width) < min_side:
        return f"is {width} x {height} pixels; expected at least {min_side} on each side", None
    if turned:
        height, width = width, height
    if box is not None and not (box[0] < min(box[2], width) and box[1] < min(box[3], height) and min(box[2:]) > 0):
        return f"is {width} x {height} pixels, and its box {box.tolist()} is not inside", None
    return None, int(min(height, width))


def classes_without_image(split, verdicts):
    """Returns the names of the classes without a good image."""
    usable = {label for label, verdict in zip(split.labels.tolist(), verdicts, strict=True) if not verdict.reason}
    names = split.class_names or {}
    return [names.get(label, str(label)) for label in sorted(set(split.labels.tolist()) - usable)]


def copies(train, test):
    """Returns pairs of a training row and a test row whose files are equal byte for byte."""
    rows = {verdict.digest: row for row, verdict in enumerate(train) if verdict.digest}
    return [(rows[verdict.digest], row) for row, verdict in enumerate(test) if verdict.digest in rows]

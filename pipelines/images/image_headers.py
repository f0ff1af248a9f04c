"""Checks of an image file's header in TensorFlow's operations, before the file is decoded.

A damaged or hostile file must not fill the memory, neither in training nor where a model is served.
"""

import tensorflow as tf

from pipelines.datasets.decoding_cost import (
    FEW_SCANS,
    FREE,
    LEAST_PIXELS,
    MANY_SCANS,
    MOST_TEXTS,
    SCAN,
    SCANNED,
    TEXTS,
)
from pipelines.datasets.header_checks import MOST_PIXELS
from pipelines.images.cold_path import cold_path
from tfdml.registry.arguments import Tensor

MOST_BYTES = 100_000_000
# Bytes that hold the size of a PNG or WebP.
HEADER_BYTES = 30
# Where EXIF data begin in a JPEG: at once, as cameras have it, or after the header of JFIF, as other software does.
EXIF_PLACES = (6, 24)
EXIF_STARTS = "|".join(rf"\C{{{place}}}Exif\x00\C*" for place in EXIF_PLACES)
# So many bytes and entries of EXIF data are read; the orientation is among the first.
EXIF_BYTES = 4096
EXIF_ENTRIES = 64
ORIENTATION_TAG = 0x0112


def check_file_size(contents: Tensor) -> tf.Tensor:
    """Returns the contents of a file; an error if it is too long for an image."""
    length = tf.strings.length(contents)
    with tf.control_dependencies([_check(length <= MOST_BYTES, f"The file has more than {MOST_BYTES} bytes:", length)]):
        return tf.identity(contents)


def jpeg_size(contents: Tensor) -> tf.Tensor:
    """Returns height and width of a JPEG, int32 `[2]`; an error if these are too many pixels, or in too many scans."""
    size = tf.io.extract_jpeg_shape(contents)[:2]
    length, pixels = tf.cast(tf.strings.length(contents), tf.int64), tf.reduce_prod(tf.cast(size, tf.int64))
    costly = length * tf.maximum(pixels, LEAST_PIXELS) > FREE
    with tf.control_dependencies([_check_pixels(size)]):
        return tf.cond(costly, lambda: _check_scans(contents, size), lambda: size)


def check_header(contents: Tensor) -> tf.Tensor:
    """Returns the contents of a PNG or still WebP; an error if the file is neither, or has too many pixels."""
    header = tf.strings.join([tf.strings.substr(contents, 0, HEADER_BYTES), "\0" * HEADER_BYTES])

    def starts(place, mark):
        return tf.equal(tf.strings.substr(header, place, len(mark)), mark)

    def numbers(place, count, kind, **options):
        text = tf.strings.substr(header, place, count * kind.size)
        return tf.cast(tf.ensure_shape(tf.io.decode_raw(text, kind, **options), [count]), tf.int64) % 256**kind.size

    lossless = numbers(21, 1, tf.int32) // [2**14, 1] % 2**14 + 1
    extended = tf.concat([numbers(26, 1, tf.int32) // 2**8, numbers(24, 1, tf.int32) % 2**24], 0) + 1
    is_webp = starts(0, b"RIFF")
    # Whether the file is of a kind, and its height and width if it is.
    kinds = [
        (starts(0, b"\x89PNG"), numbers(16, 2, tf.int32, little_endian=False)[::-1]),
        (is_webp & starts(8, b"WEBPVP8 "), numbers(26, 2, tf.uint16)[::-1] % 2**14),
        (is_webp & starts(8, b"WEBPVP8L"), lossless),
        (is_webp & (is_extended := starts(8, b"WEBPVP8X")), extended),
    ]
    known = tf.stack([is_kind for is_kind, _ in kinds])
    size = tf.reduce_sum(tf.where(known[:, None], tf.stack([size for _, size in kinds]), 0), axis=0)
    # TensorFlow writes beyond its memory when it decodes some of these.
    moving = is_webp & is_extended & (numbers(20, 1, tf.uint8)[0] & 2 > 0)
    texts = tf.add_n([_count(contents, kind) for kind in TEXTS])
    checks = [
        _check(texts <= MOST_TEXTS, f"The PNG has more than {MOST_TEXTS} compressed texts:", texts),
        _check(tf.reduce_any(known), "The file is not a JPEG, PNG or WebP image. Save it as JPEG or PNG."),
        _check(~moving, "The file is an animated WebP. Save one frame of it."),
        _check_pixels(size),
    ]
    with tf.control_dependencies(checks):
        return tf.identity(contents)


def jpeg_orientation(contents: Tensor) -> tf.Tensor:
    """Returns the EXIF orientation of a JPEG, int32 from 1 to 8; 1 (upright) without an entry."""
    start = tf.strings.substr(contents, 0, EXIF_PLACES[-1] + 6)
    return tf.cond(tf.strings.regex_full_match(start, EXIF_STARTS), lambda: _exif_orientation(contents), lambda: 1)


@cold_path(tf.TensorSpec([], tf.string), tf.TensorSpec([2], tf.int32))
def _check_scans(contents, size):
    # What looks like a scan may be none.
    scans = _count(contents, SCAN[0][:2])
    scans = tf.cond(scans > FEW_SCANS, lambda: tf.add_n([_count(contents, scan) for scan in SCAN]), lambda: scans)
    pixels = tf.reduce_prod(tf.cast(size, tf.int64))
    most = tf.maximum(FEW_SCANS, tf.minimum(MANY_SCANS, tf.cast(SCANNED // tf.maximum(pixels, 1), tf.int32)))
    told = "The JPEG has more scans than its size allows. Save it anew. Scans, and how many it may have:"
    with tf.control_dependencies([_check(scans <= most, told, scans, most)]):
        return tf.identity(size)


@cold_path(tf.TensorSpec([], tf.string))
def _exif_orientation(contents):
    first = tf.equal(tf.strings.substr(contents, EXIF_PLACES[0], 4), "Exif")
    data = _bytes(contents, tf.where(first, *EXIF_PLACES) + 6, EXIF_BYTES)
    big = data[0] == ord("M")

    def number(place):
        one, other = tf.gather(data, place), tf.gather(data, place + 1)
        return tf.where(big, 256 * one + other, one + 256 * other)

    # The directory's offset has four bytes, of which the lower two are enough here.
    directory = tf.minimum(number(tf.where(big, 6, 4)), EXIF_BYTES - 12 * EXIF_ENTRIES - 2)
    entries = directory + 2 + 12 * tf.range(EXIF_ENTRIES)
    given = (tf.range(EXIF_ENTRIES) < number(directory)) & (number(entries) == ORIENTATION_TAG)
    orientation = tf.reduce_max(tf.where(given, number(entries + 8), 0))
    return tf.where((orientation >= 1) & (orientation <= 8), orientation, 1)


def _count(contents, mark):
    """Returns how often a mark occurs in a file, in 2 % of the time to decode a JPEG; other operations take longer."""
    return tf.size(tf.raw_ops.StringSplitV2(input=[contents], sep=mark).values) - 1


def _check_pixels(size):
    pixels = tf.reduce_prod(tf.cast(size, tf.int64))
    message = f"The image has more than {MOST_PIXELS} pixels (height, width):"
    return _check(pixels <= MOST_PIXELS, message, tf.cast(size, tf.int32))


def _check(condition, *message):
    # Unlike with the public function, the error is the same inside and outside of graphs.
    return tf.raw_ops.Assert(condition=condition, data=list(message))


def _bytes(contents, place, count):
    """Returns bytes of a file as int32 `[count + 1]`, padded with zeros; the last is always zero."""
    text = tf.strings.join([tf.strings.substr(contents, place, count), "\0" * (count + 1)])
    return tf.ensure_shape(tf.cast(tf.io.decode_raw(text, tf.uint8)[: count + 1], tf.int32), [count + 1])

"""Reads and decodes image files, after their headers have been checked."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from pipelines.checks import (
    CONVERTED_START,
    FEW_SCANS,
    MOST_PIXELS,
    MOST_TEXTS,
    MOVES,
    SCAN_START,
    TEXTS,
    as_decodable,
    costly_png,
)
from pipelines.dataset import WHOLE, Split
from pipelines.images.resizing import Cut, slice_window
from pipelines.stored import vector_dims
from tfdml.registry.arguments import Rows, Tensor


def cold_path(*signature: tf.TensorSpec) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator that keeps a function out of the graph around it, for a branch of a `tf.cond` that is rarely taken.

    TensorFlow unrolls the branches of a condition into the graph around it, visits the operations of both each time,
    and builds them again at the start of every pass. A decorated function is a single operation there. `signature` has
    a `tf.TensorSpec` for each of its arguments.
    """

    def decorate(function):
        attributes = {"_noinline": True}
        single = tf.function(function, input_signature=signature, autograph=False, experimental_attributes=attributes)

        # Outside of graphs the function itself is called: its errors are shorter.
        @functools.wraps(function)
        def call(*arguments):
            return function(*arguments) if tf.executing_eagerly() else single(*arguments)

        return call

    return decorate


MOST_BYTES = 100_000_000
# A scan of a JPEG takes 0.3 to 2 ns for each pixel, so `SCANNED` pixels take 2 seconds at most. Photos of any size
# pass, and small images with the most scans that a script can name.
MANY_SCANS, SCANNED = 1000, 1_000_000_000
# A scan has ten bytes or more, and takes as long as a few thousand pixels at least. If bytes times pixels are not more
# than this, the scans that fit in take a second. So scans of most images of datasets need not be counted.
FREE, LEAST_PIXELS = 20_000_000_000, 2**13
# The headers of scans of 1 to 4 components. With its length, which libjpeg checks, a header hardly occurs by chance in
# what else a file holds, such as the film behind a phone's photo.
SCANS = tuple(SCAN_START + b"\x00" + bytes((6 + 2 * count, count)) for count in range(1, 5))
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
    scans, most = jpeg_scans(contents, size)
    message = "The JPEG has more scans than its size allows. Save it anew. Scans, and how many it may have:"
    with tf.control_dependencies([_check(scans <= most, message, scans, most)]):
        return tf.identity(size)


def jpeg_scans(contents: Tensor, size: Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns how many scans a JPEG has, and how many it may have with this height and width."""
    # What looks like a scan may be none.
    scans = _count(contents, SCAN_START)
    scans = tf.cond(scans > FEW_SCANS, lambda: tf.add_n([_count(contents, scan) for scan in SCANS]), lambda: scans)
    pixels = tf.reduce_prod(tf.cast(size, tf.int64))
    return scans, tf.maximum(FEW_SCANS, tf.minimum(MANY_SCANS, tf.cast(SCANNED // tf.maximum(pixels, 1), tf.int32)))


def why_costly(contents: bytes) -> str | None:
    """Returns why an image file is not worth decoding, such as `has 1,010 scans`, or None, by the limits of `decode`.

    Of a PNG it also unpacks the data, which `decode` cannot.
    """
    if contents[:2] != b"\xff\xd8":
        return costly_png(contents)
    if SCAN_START not in contents:
        # libjpeg writes to standard error by itself where a file ends in its header.
        return "ends before its pixels"
    if contents.count(SCAN_START) <= FEW_SCANS:
        return None
    try:
        size = tf.io.extract_jpeg_shape(contents)[:2].numpy()
    except tf.errors.InvalidArgumentError:
        # Decoders will say so.
        return None
    if len(contents) * max(math.prod(size.tolist()), LEAST_PIXELS) <= FREE:
        return None
    scans, most = (int(number) for number in jpeg_scans(contents, size))
    return f"has {scans:,} scans, more than {most:,} for its size; save it anew" if scans > most else None


@cold_path(tf.TensorSpec([], tf.string))
def _exif_orientation(contents):
    first = tf.equal(tf.strings.substr(contents, EXIF_PLACES[0], 4), "Exif")
    # Padded with zeros; the last byte is always zero.
    text = tf.strings.substr(contents, tf.where(first, *EXIF_PLACES) + 6, EXIF_BYTES)
    padded = tf.strings.join([text, "\0" * (EXIF_BYTES + 1)])
    data = tf.cast(tf.io.decode_raw(padded, tf.uint8)[: EXIF_BYTES + 1], tf.int32)
    data = tf.ensure_shape(data, [EXIF_BYTES + 1])
    big = data[0] == ord("M")

    def number(place):
        one, other = tf.gather(data, place), tf.gather(data, place + 1)
        return tf.where(big, 256 * one + other, one + 256 * other)

    # The directory's offset has four bytes, of which the lower two are enough here.
    directory = tf.minimum(number(tf.where(big, 6, 4)), EXIF_BYTES - 12 * EXIF_ENTRIES - 2)
    entries = directory + 2 + 12 * tf.range(EXIF_ENTRIES)
    is_orientation = (tf.range(EXIF_ENTRIES) < number(directory)) & (number(entries) == ORIENTATION_TAG)
    orientation = tf.reduce_max(tf.where(is_orientation, number(entries + 8), 0))
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


# The last two make a decoded window equal to the window of a decoded image, and agree with libjpeg's slow transform.
JPEG = {"channels": 3, "dct_method": "INTEGER_ACCURATE", "fancy_upscaling": False}
# How many times smaller libjpeg can decode, by leaving out fine waves.
SHRINKS = (1, 2, 4, 8)
# How a file starts that is no JPEG, PNG or still WebP, but is converted. The flags of a WebP have six bits.
MOVING = "".join(rf"\x{flags:02x}" for flags in range(64) if flags & MOVES)
CONVERTED = rf"\C{{4}}ftyp\C*|RIFF\C{{4}}WEBPVP8X\C{{4}}[{MOVING}]"


def read_image(path: Tensor) -> tf.Tensor:
    """Reads an image file, and returns contents that `decode` takes; see `converted`."""
    return converted(tf.io.read_file(path))


def converted(contents: Tensor) -> tf.Tensor:
    """Returns contents that `decode` takes: of an AVIF, a HEIC or an animated WebP those of a PNG of its first picture.

    Python converts them, so an exported model cannot.
    """
    start = tf.strings.substr(contents, 0, CONVERTED_START)
    return tf.cond(tf.strings.regex_full_match(start, CONVERTED), lambda: _converted(contents), lambda: contents)


@cold_path(tf.TensorSpec([], tf.string))
def _converted(contents):
    # Outside of graphs TensorFlow gives the function an array. An array of bytes would lose zeros at their end.
    def convert(file):
        return as_decodable(file if isinstance(file, bytes) else file.item())

    return tf.ensure_shape(tf.numpy_function(convert, [contents], tf.string, stateful=False), [])


def decode(contents: Tensor, box: Tensor | None = None) -> tf.Tensor:
    """Decodes a JPEG, PNG or WebP to uint8 `[H, W, 3]`, and rotates a JPEG according to its EXIF data.

    `box` is left, top, right and bottom `[4]` of the part to decode, in pixels of the stored image, before it is
    rotated; what lies outside of the image is ignored. Default: all.
    """
    contents = check_file_size(contents)
    return _decode(contents, tf.io.is_jpeg(contents), box)


def decode_cut(
    contents: Tensor, cut: Cut, seed: Tensor, *, box: Tensor | None = None, shrink: bool = False
) -> tf.Tensor:
    """Computes `cut(decode(contents, box), seed)`, in less time where possible.

    With `shrink` a JPEG is decoded at 1/2, 1/4 or 1/8 where its window is resized to that or less; pixels differ.
    """
    contents = check_file_size(contents)
    jpeg = tf.io.is_jpeg(contents)
    upright = tf.cond(jpeg, lambda: jpeg_orientation(contents) == 1, lambda: False)

    # An image that can be decoded in parts is not decoded yet: only its size is needed.
    def unread():
        size = jpeg_size(contents)
        corner, size = (tf.zeros([2], tf.int32), size) if box is None else _inside(size, box)
        return tf.zeros([0, 0, 3], tf.uint8), corner, size

    def read():
        image = _decode_all(contents, WHOLE if box is None else box)
        return image, tf.zeros([2], tf.int32), tf.shape(image)[:2]

    image, corner, size = tf.cond(upright, unread, read)
    window, complete = cut.plan(*tf.unstack(tf.cast(size, tf.float32)), seed)
    corner += tf.cast(tf.stack(window[:2]), tf.int32)
    smaller = _smaller(cut, *window[2:]) if shrink and cut.target else None
    pixels = tf.cond(
        upright,
        lambda: _decode_window(contents, corner, tf.cast(tf.stack(window[2:]), tf.int32), smaller),
        lambda: slice_window(image, *window),
    )
    return complete(pixels)


def _smaller(cut, height, width):
    """Returns the index in `SHRINKS` of the largest ratio that leaves the window as large as its target."""
    rows, columns = cut.target(height, width)
    spare = tf.minimum(height / tf.cast(rows, tf.float32), width / tf.cast(columns, tf.float32))
    return tf.reduce_sum(tf.cast(spare >= SHRINKS[1:], tf.int32))


def _decode_window(contents, corner, size, smaller):
    """Decodes the window with this top left corner and size, smaller by the ratio with this index in `SHRINKS`."""

    def at(ratio):
        first, end = corner // ratio, -(-(corner + size) // ratio)
        window = tf.concat([first, end - first], 0)
        return lambda: tf.io.decode_and_crop_jpeg(contents, window, ratio=ratio, **JPEG)

    return at(1)() if smaller is None else tf.switch_case(smaller, [at(ratio) for ratio in SHRINKS])


@cold_path(tf.TensorSpec([], tf.string), tf.TensorSpec([4], tf.int32))
def _decode_all(contents, box):
    return _decode(contents, tf.io.is_jpeg(contents), box)


def _decode(contents, jpeg, box):
    def decode_jpeg():
        with tf.control_dependencies([jpeg_size(contents)]):
            return tf.io.decode_jpeg(contents, **JPEG)

    image = tf.cond(jpeg, decode_jpeg, lambda: _decode_other(contents))
    image = tf.ensure_shape(image, [None, None, 3])
    if box is not None:
        corner, size = _inside(tf.shape(image)[:2], box)
        image = slice_window(image, *tf.unstack(corner), *tf.unstack(size))
    orientation = tf.cond(jpeg, lambda: jpeg_orientation(contents), lambda: 1)
    return tf.cond(orientation == 1, lambda: image, lambda: _upright(image, orientation))


@cold_path(tf.TensorSpec([], tf.string))
def _decode_other(contents):
    contents = check_header(contents)

    def decoded(channels):
        return tf.io.decode_image(contents, channels=channels, expand_animations=False)

    # TensorFlow drops the alpha channel of all others by itself.
    webp = tf.equal(tf.strings.substr(contents, 0, 4), "RIFF")
    return tf.cond(webp, lambda: decoded(0)[:, :, :3], lambda: decoded(3))


@cold_path(tf.TensorSpec([None, None, 3], tf.uint8), tf.TensorSpec([], tf.int32))
def _upright(image, orientation):
    """Undoes an EXIF orientation: 2 is mirrored, 3 half a turn, 4 both; 5 to 8 likewise, with sides exchanged."""
    lying = orientation >= 5
    mirrored = tf.reduce_any(orientation == [2, 3, 6, 7])
    upside_down = tf.reduce_any(orientation == [3, 4, 7, 8])
    image = tf.cond(lying, lambda: tf.transpose(image, [1, 0, 2]), lambda: image)
    image = tf.cond(mirrored, lambda: tf.reverse(image, [1]), lambda: image)
    return tf.cond(upside_down, lambda: tf.reverse(image, [0]), lambda: image)


def _inside(size, box):
    """Returns top left corner and size, `[2]` each, of the part of an image in a box, at least one pixel."""
    left, top, right, bottom = tf.unstack(tf.cast(box, tf.int32))
    corner = tf.clip_by_value(tf.stack([top, left]), 0, size - 1)
    return corner, tf.maximum(tf.minimum(tf.stack([bottom, right]), size), corner + 1) - corner


# Pictures that are copied at once.
BATCH = 256


def image_of(split: Split, row: int) -> np.ndarray:
    """Returns the decoded image of a row, uint8 `[H, W, 3]`; of a vector a picture."""
    if vector_dims(split):
        return tf.constant(split.images.picture(row))
    contents = converted(tf.constant(split.images[row])) if split.encoded else read_image(split.images[row])
    return decode(contents, None if split.boxes is None else split.boxes[row])


def thumbnail(split: Split, row: int, side: int) -> np.ndarray:
    """Returns a small picture of a row, uint8 `[side, side, 3]`, with the aspect ratio of the image."""
    return _shrunk(image_of(split, row), side).numpy()


def thumbnails(split: Split, rows: Rows, side: int) -> np.ndarray:
    """Returns small pictures of many rows, uint8 `[n, side, side, 3]`, as `thumbnail` makes them, on all cores."""
    chosen = split.where(rows)
    if vector_dims(split):
        return np.stack([thumbnail(chosen, row, side) for row in range(len(chosen))])
    boxes = [] if chosen.boxes is None else [chosen.boxes]

    def prepared(image, *box):
        contents = converted(image) if chosen.encoded else read_image(image)
        return _shrunk(decode(contents, *box), side)

    dataset = tf.data.Dataset.from_tensor_slices((chosen.images.tolist(), *boxes))
    dataset = dataset.map(prepared, num_parallel_calls=tf.data.AUTOTUNE).batch(BATCH)
    return np.concatenate([batch.numpy() for batch in dataset])


def _shrunk(image, side):
    resized = tf.image.resize_with_pad(image, side, side, antialias=True)
    return tf.cast(tf.clip_by_value(tf.round(resized), 0, 255), tf.uint8)

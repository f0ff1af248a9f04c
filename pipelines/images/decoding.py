"""Reads and decodes image files, after their headers have been checked."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pipelines.checks import (
    CONVERTED_START,
    FEW_SCANS,
    MOST_PIXELS,
    MOST_TEXTS,
    MOVES,
    ORIENTATION,
    SCAN_START,
    TEXTS,
    as_decodable,
    costly_png,
)
from pipelines.dataset import WHOLE, Split
from pipelines.images import pillow
from pipelines.images.resizing import Cut, slice_window
from pipelines.operations import tf
from pipelines.stored import vector_dims
from tfdml.files.checked import read_bytes
from tfdml.registry.arguments import Rows, Tensor
from tfdml.runtime.backends import uses_tensorflow


def cold_path(*signature: tf.TensorSpec) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator that keeps a function out of the surrounding graph, for a branch of a `tf.cond` that rarely runs.

    TensorFlow unrolls the branches of a condition into the surrounding graph, visits the operations of both branches
    each time, and builds them again at the start of every pass. There, a decorated function is a single operation.
    `signature` has a `tf.TensorSpec` for each of its arguments.
    """

    def decorate(function):
        attributes = {"_noinline": True}
        single = tf.function(function, input_signature=signature, autograph=False, experimental_attributes=attributes)

        # Outside of graphs, the function itself is called, because its errors are shorter.
        @functools.wraps(function)
        def call(*arguments):
            return function(*arguments) if tf.executing_eagerly() else single(*arguments)

        return call

    return decorate


MOST_BYTES = 100_000_000
# A scan of a JPEG needs 0.3 to 2 ns per pixel, so `SCANNED` pixels need at most 2 seconds. This accepts photos of any
# size, and small images with the largest number of scans that a scan script can have.
MANY_SCANS, SCANNED = 1000, 1_000_000_000
# A scan has at least ten bytes and needs at least as long as a few thousand pixels. If bytes times pixels are not more
# than this, all scans that fit into the file need about a second, so the scans of most images need not be counted.
FREE, LEAST_PIXELS = 20_000_000_000, 2**13
# The headers of scans with 1 to 4 components. A header includes its length, which libjpeg checks, so it hardly occurs
# by chance in other data of a file, such as the video after a phone's photo.
SCANS = tuple(SCAN_START + b"\x00" + bytes((6 + 2 * count, count)) for count in range(1, 5))
# Number of bytes that contain the size of a PNG or WebP.
HEADER_BYTES = 30
# Offset of EXIF data in a JPEG: at the start, as cameras write it, or after the JFIF header, as other software does.
EXIF_PLACES = (6, 24)
EXIF_STARTS = "|".join(rf"\C{{{place}}}Exif\x00\C*" for place in EXIF_PLACES)
# Number of bytes and entries of the EXIF data to read. The orientation is among the first entries.
EXIF_BYTES = 4096
EXIF_ENTRIES = 64


def check_file_size(contents: Tensor) -> tf.Tensor:
    """Returns the contents of a file, or an error if the file is too large for an image."""
    length = tf.strings.length(contents)
    with tf.control_dependencies([_check(length <= MOST_BYTES, f"The file has more than {MOST_BYTES} bytes:", length)]):
        return tf.identity(contents)


def jpeg_size(contents: Tensor) -> tf.Tensor:
    """Returns the height and width of a JPEG, int32 `[2]`, or an error if it has too many pixels or scans."""
    size = tf.io.extract_jpeg_shape(contents)[:2]
    length, pixels = tf.cast(tf.strings.length(contents), tf.int64), tf.reduce_prod(tf.cast(size, tf.int64))
    costly = length * tf.maximum(pixels, LEAST_PIXELS) > FREE
    with tf.control_dependencies([_check_pixels(size)]):
        return tf.cond(costly, lambda: _check_scans(contents, size), lambda: size)


def check_header(contents: Tensor) -> tf.Tensor:
    """Returns the contents of a PNG or still WebP, or an error if the file is neither or has too many pixels."""
    header = tf.strings.join([tf.strings.substr(contents, 0, HEADER_BYTES), "\0" * HEADER_BYTES])

    def starts(place, mark):
        return tf.equal(tf.strings.substr(header, place, len(mark)), mark)

    def numbers(place, count, kind, **options):
        text = tf.strings.substr(header, place, count * kind.size)
        return tf.cast(tf.ensure_shape(tf.io.decode_raw(text, kind, **options), [count]), tf.int64) % 256**kind.size

    lossless = numbers(21, 1, tf.int32) // [2**14, 1] % 2**14 + 1
    extended = tf.concat([numbers(26, 1, tf.int32) // 2**8, numbers(24, 1, tf.int32) % 2**24], 0) + 1
    is_webp = starts(0, b"RIFF")
    # For each kind of file: whether the file is of this kind, and its height and width if it is.
    kinds = [
        (starts(0, b"\x89PNG"), numbers(16, 2, tf.int32, little_endian=False)[::-1]),
        (is_webp & starts(8, b"WEBPVP8 "), numbers(26, 2, tf.uint16)[::-1] % 2**14),
        (is_webp & starts(8, b"WEBPVP8L"), lossless),
        (is_webp & (is_extended := starts(8, b"WEBPVP8X")), extended),
    ]
    known = tf.stack([is_kind for is_kind, _ in kinds])
    size = tf.reduce_sum(tf.where(known[:, None], tf.stack([size for _, size in kinds]), 0), axis=0)
    # TensorFlow writes out of bounds when it decodes some animations.
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
    """Returns the EXIF orientation of a JPEG, int32 from 1 to 8, or 1 (upright) if there is none."""
    start = tf.strings.substr(contents, 0, EXIF_PLACES[-1] + 6)
    return tf.cond(tf.strings.regex_full_match(start, EXIF_STARTS), lambda: _exif_orientation(contents), lambda: 1)


@cold_path(tf.TensorSpec([], tf.string), tf.TensorSpec([2], tf.int32))
def _check_scans(contents, size):
    scans, most = jpeg_scans(contents, size)
    message = "The JPEG has more scans than allowed for its size. Save it again. Number of scans, and allowed number:"
    with tf.control_dependencies([_check(scans <= most, message, scans, most)]):
        return tf.identity(size)


def jpeg_scans(contents: Tensor, size: Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the number of scans of a JPEG, and the allowed number for this height and width."""
    # The bytes of SCAN_START can also occur by chance.
    scans = _count(contents, SCAN_START)
    scans = tf.cond(scans > FEW_SCANS, lambda: tf.add_n([_count(contents, scan) for scan in SCANS]), lambda: scans)
    pixels = tf.reduce_prod(tf.cast(size, tf.int64))
    return scans, tf.maximum(FEW_SCANS, tf.minimum(MANY_SCANS, tf.cast(SCANNED // tf.maximum(pixels, 1), tf.int32)))


def why_costly(contents: bytes) -> str | None:
    """Returns why `decode` would reject an image file as too costly, such as `has 1,010 scans`, or None.

    It also decompresses the data of a PNG to find its size, which `decode` cannot do.
    """
    if contents[:2] != b"\xff\xd8":
        return costly_png(contents)
    if SCAN_START not in contents:
        # libjpeg itself prints to standard error if a file ends within its header.
        return "ends before its pixels"
    if contents.count(SCAN_START) <= FEW_SCANS:
        return None
    try:
        size = tf.io.extract_jpeg_shape(contents)[:2].numpy()
    except tf.errors.InvalidArgumentError:
        # The decoder will report the error.
        return None
    if len(contents) * max(math.prod(size.tolist()), LEAST_PIXELS) <= FREE:
        return None
    scans, most = (int(number) for number in jpeg_scans(contents, size))
    return f"has {scans:,} scans, more than {most:,} for its size; save it again" if scans > most else None


@cold_path(tf.TensorSpec([], tf.string))
def _exif_orientation(contents):
    first = tf.equal(tf.strings.substr(contents, EXIF_PLACES[0], 4), "Exif")
    # The text is padded with zeros, and the last byte is always zero.
    text = tf.strings.substr(contents, tf.where(first, *EXIF_PLACES) + 6, EXIF_BYTES)
    padded = tf.strings.join([text, "\0" * (EXIF_BYTES + 1)])
    data = tf.cast(tf.io.decode_raw(padded, tf.uint8)[: EXIF_BYTES + 1], tf.int32)
    data = tf.ensure_shape(data, [EXIF_BYTES + 1])
    big = data[0] == ord("M")

    def number(place):
        one, other = tf.gather(data, place), tf.gather(data, place + 1)
        return tf.where(big, 256 * one + other, one + 256 * other)

    # The directory's offset has four bytes. The lower two are enough here.
    directory = tf.minimum(number(tf.where(big, 6, 4)), EXIF_BYTES - 12 * EXIF_ENTRIES - 2)
    entries = directory + 2 + 12 * tf.range(EXIF_ENTRIES)
    is_orientation = (tf.range(EXIF_ENTRIES) < number(directory)) & (number(entries) == ORIENTATION)
    orientation = tf.reduce_max(tf.where(is_orientation, number(entries + 8), 0))
    return tf.where((orientation >= 1) & (orientation <= 8), orientation, 1)


def _count(contents, mark):
    """Returns how often a mark occurs in a file, in 2% of the time to decode a JPEG. Other operations are slower."""
    return tf.size(tf.raw_ops.StringSplitV2(input=[contents], sep=mark).values) - 1


def _check_pixels(size):
    pixels = tf.reduce_prod(tf.cast(size, tf.int64))
    message = f"The image has more than {MOST_PIXELS} pixels (height, width):"
    return _check(pixels <= MOST_PIXELS, message, tf.cast(size, tf.int32))


def _check(condition, *message):
    # Unlike the public function, this raises the same error inside and outside of graphs.
    return tf.raw_ops.Assert(condition=condition, data=list(message))


# With the last two options, a decoded window equals the same window of the whole decoded image. They correspond to
# libjpeg's slow transform.
JPEG = {"channels": 3, "dct_method": "INTEGER_ACCURATE", "fancy_upscaling": False}
# Ratios at which libjpeg can decode a smaller image, by skipping high frequencies.
SHRINKS = (1, 2, 4, 8)
# Start of a file that must be converted first: AVIF, HEIC or animated WebP. The flags of a WebP have six bits.
MOVING = "".join(rf"\x{flags:02x}" for flags in range(64) if flags & MOVES)
CONVERTED = rf"\C{{4}}ftyp\C*|RIFF\C{{4}}WEBPVP8X\C{{4}}[{MOVING}]"


def read_image(path: Tensor) -> tf.Tensor:
    """Reads an image file and returns contents that `decode` accepts; see `converted`."""
    return converted(tf.io.read_file(path) if uses_tensorflow() else read_bytes(path))


def converted(contents: Tensor) -> tf.Tensor:
    """Returns contents that `decode` accepts: an AVIF, HEIC or animated WebP becomes a PNG of its first image.

    The conversion runs in Python, so it does not work in an exported model.
    """
    if not uses_tensorflow():
        return as_decodable(contents)
    start = tf.strings.substr(contents, 0, CONVERTED_START)
    return tf.cond(tf.strings.regex_full_match(start, CONVERTED), lambda: _converted(contents), lambda: contents)


@cold_path(tf.TensorSpec([], tf.string))
def _converted(contents):
    # Outside of graphs, TensorFlow passes an array to the function. An array of bytes would lose zeros at the end.
    def convert(file):
        return as_decodable(file if isinstance(file, bytes) else file.item())

    return tf.ensure_shape(tf.numpy_function(convert, [contents], tf.string, stateful=False), [])


def decode(contents: Tensor, box: Tensor | None = None) -> tf.Tensor:
    """Decodes a JPEG, PNG or WebP to uint8 `[H, W, 3]` and rotates a JPEG according to its EXIF orientation.

    `box` is the left, top, right and bottom `[4]` of the part to decode, in pixels of the stored image before it is
    rotated. It is clipped to the image. If `None`, the whole image is decoded.
    """
    if not uses_tensorflow():
        return pillow.decoded(contents, box)
    contents = check_file_size(contents)
    return _decode(contents, tf.io.is_jpeg(contents), box)


def decode_cut(
    contents: Tensor, cut: Cut, seed: Tensor, *, box: Tensor | None = None, shrink: bool = False
) -> tf.Tensor:
    """Computes `cut(decode(contents, box), seed)`, in less time if possible.

    With `shrink`, a JPEG is decoded at 1/2, 1/4 or 1/8 of its size if its window is resized to that size or less. This
    changes the pixels.
    """
    if not uses_tensorflow():
        return cut(pillow.decoded(contents, box), seed)
    contents = check_file_size(contents)
    jpeg = tf.io.is_jpeg(contents)
    upright = tf.cond(jpeg, lambda: jpeg_orientation(contents) == 1, lambda: False)

    # An image that can be decoded in parts is not decoded yet, because only its size is needed.
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
    """Returns the index in `SHRINKS` of the largest ratio at which the window is still as large as its target."""
    rows, columns = cut.target(height, width)
    spare = tf.minimum(height / tf.cast(rows, tf.float32), width / tf.cast(columns, tf.float32))
    return tf.reduce_sum(tf.cast(spare >= SHRINKS[1:], tf.int32))


def _decode_window(contents, corner, size, smaller):
    """Decodes the window with this top left corner and size, reduced by the ratio `SHRINKS[smaller]`."""

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

    # TensorFlow itself drops the alpha channel, except for WebP.
    webp = tf.equal(tf.strings.substr(contents, 0, 4), "RIFF")
    return tf.cond(webp, lambda: decoded(0)[:, :, :3], lambda: decoded(3))


@cold_path(tf.TensorSpec([None, None, 3], tf.uint8), tf.TensorSpec([], tf.int32))
def _upright(image, orientation):
    """Undoes an EXIF orientation: 2 is mirrored, 3 is rotated by 180 degrees, 4 is both; 5 to 8 are transposed too."""
    lying = orientation >= 5
    mirrored = tf.reduce_any(orientation == [2, 3, 6, 7])
    upside_down = tf.reduce_any(orientation == [3, 4, 7, 8])
    image = tf.cond(lying, lambda: tf.transpose(image, [1, 0, 2]), lambda: image)
    image = tf.cond(mirrored, lambda: tf.reverse(image, [1]), lambda: image)
    return tf.cond(upside_down, lambda: tf.reverse(image, [0]), lambda: image)


def _inside(size, box):
    """Returns the top left corner and the size, `[2]` each, of a box clipped to an image, at least one pixel."""
    left, top, right, bottom = tf.unstack(tf.cast(box, tf.int32))
    corner = tf.clip_by_value(tf.stack([top, left]), 0, size - 1)
    return corner, tf.maximum(tf.minimum(tf.stack([bottom, right]), size), corner + 1) - corner


# Number of thumbnails per batch.
BATCH = 256


def image_of(split: Split, row: int) -> np.ndarray:
    """Returns the decoded image of a row, uint8 `[H, W, 3]`, or a plot of its vector."""
    if vector_dims(split):
        return tf.constant(split.images.picture(row))
    contents = converted(tf.constant(split.images[row])) if split.encoded else read_image(split.images[row])
    return decode(contents, None if split.boxes is None else split.boxes[row])


def thumbnail(split: Split, row: int, side: int) -> np.ndarray:
    """Returns a thumbnail of a row, uint8 `[side, side, 3]`, padded to keep the aspect ratio of the image."""
    return _shrunk(image_of(split, row), side).numpy()


def thumbnails(split: Split, rows: Rows, side: int) -> np.ndarray:
    """Returns the thumbnails of many rows, uint8 `[n, side, side, 3]`, computed on all cores; see `thumbnail`."""
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

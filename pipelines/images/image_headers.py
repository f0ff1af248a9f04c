"""What the first bytes of an image file tell, in TensorFlow's operations: files are judged before they are decoded.

A damaged or hostile file must not fill the memory, neither while training nor where a model is served.
"""

import numpy as np
import tensorflow as tf

from pipelines.datasets.headers import MOST_PIXELS
from pipelines.images.cold_path import cold_path
from pipelines.images.gif_frames import gif_frames

MOST_BYTES = 100_000_000
# Of a GIF all frames are decoded, in a byte a pixel, where another image takes three.
MOST_GIF_PIXELS = 3 * MOST_PIXELS
# Where EXIF data begin in a JPEG: at once, as cameras have it, or after the header of JFIF, as other software does.
EXIF_PLACES = (6, 24)
EXIF_STARTS = "|".join(rf"\C{{{place}}}Exif\x00\C*" for place in EXIF_PLACES)
# Of EXIF data so many bytes and entries are looked at; the orientation stands among the first.
EXIF_BYTES = 4096
EXIF_ENTRIES = 64
ORIENTATION_TAG = 0x0112
SAVE_ONE = "Save one picture of it."
# Bytes of the longest header below, that of a BMP with a palette of 256 colours.
HEADER = 54 + 4 * 256
ANY = -1


def _kind(mark, height, width, divisors=(1, 1), modulus=2**32, added=0):
    """How a kind of file is known and where it has its size; places of bytes go from the least of a number on."""
    nothing = (HEADER,)
    places = [(*places, *nothing * (4 - len(places))) for places in (height, width)]
    return [ord(letter) if letter != "?" else ANY for letter in mark.ljust(16, "?")], places, divisors, modulus, added


KINDS = {
    "png": _kind("\x89PNG", (23, 22, 21, 20), (19, 18, 17, 16)),
    # Of a GIF the frames say it, see `gif_frames`.
    "gif": _kind("GIF8", (), ()),
    "bmp": _kind("BM", (22, 23, 24, 25), (18, 19, 20, 21)),
    "webp": _kind("RIFF????WEBPVP8 ", (28, 29), (26, 27), modulus=2**14),
    "webp_lossless": _kind("RIFF????WEBPVP8L", *[(21, 22, 23, 24)] * 2, (2**14, 1), modulus=2**14, added=1),
    "webp_extended": _kind("RIFF????WEBPVP8X", (27, 28, 29), (24, 25, 26), added=1),
}


def bearable_file(contents):
    """The file itself; an error if it is too long to be read as an image."""
    length = tf.strings.length(contents)
    told = [f"The file has more than {MOST_BYTES} bytes:", length]
    with tf.control_dependencies([_check(length <= MOST_BYTES, told)]):
        return tf.identity(contents)


def jpeg_size(contents):
    """Height and width of a JPEG, int32 `[2]`; an error if these are too many pixels."""
    return _bearable_size(tf.io.extract_jpeg_shape(contents)[:2])


def refuse_unbearable(contents):
    """The file of a PNG, GIF, BMP or WebP; an error if it is none, has too many pixels, or is not decoded right."""
    start = _bytes(contents, 0, HEADER)
    marks, places, divisors, moduli, added = (np.array(column) for column in zip(*KINDS.values(), strict=True))
    found = tf.reduce_all((start[: marks.shape[1]] == marks) | (marks == ANY), axis=1)
    numbers = tf.reduce_sum(tf.cast(tf.gather(start, places), tf.int64) * [1, 2**8, 2**16, 2**24], axis=2)
    numbers = numbers // divisors % moduli[:, None] + added[:, None]
    size = tf.reduce_sum(tf.where(found[:, None], numbers, 0), axis=0)
    # The lines of a BMP stand from bottom to top or, with a negative number of them, from top to bottom.
    size = tf.where(size < 2**31, size, 2**32 - size)
    is_kind = dict(zip(KINDS, tf.unstack(found), strict=True))
    # TensorFlow takes the numbers of palette colours for shades of grey, without an error.
    grey = tf.reduce_all(tf.reshape(start[54:HEADER], [256, 4])[:, :3] == tf.range(256)[:, None])
    bits = start[28]
    coloured = is_kind["bmp"] & (bits != 24) & (bits != 32) & ~((bits == 8) & grey)
    # TensorFlow overwrites memory that is not its own when it decodes some of these.
    moving = is_kind["webp_extended"] & (start[20] & 2 > 0)
    size = _refusing("This is no JPEG, PNG, GIF, BMP or WebP file.", tf.reduce_any(found), size)
    size = _refusing("This is a BMP with a palette. Save it as PNG.", ~coloured, size)
    size = _refusing(f"This is a moving WebP. {SAVE_ONE}", ~moving, size)
    with tf.control_dependencies([tf.cond(is_kind["gif"], lambda: _gif_size(contents), lambda: _bearable_size(size))]):
        return tf.identity(contents)


def _gif_size(contents):
    """The size that a GIF is decoded to, int32 `[2]`; an error if its frames are too many, or are not decoded right."""
    frames = gif_frames(contents)
    size = _bearable_size(tf.stack([frames.height, frames.width]))
    fine = frames.complete & (frames.together <= MOST_GIF_PIXELS)
    told = f"The frames of this GIF are too many, or have more than {MOST_GIF_PIXELS} pixels together. {SAVE_ONE}"
    size = _refusing(told, fine, size)
    # TensorFlow cuts off what is moved.
    return _refusing(f"The first frame of this GIF is not in the corner. {SAVE_ONE}", frames.corner == 0, size)


def jpeg_orientation(contents):
    """The orientation that the EXIF data of a JPEG give, int32 from 1 to 8; 1, upright, where they give none."""
    start = tf.strings.substr(contents, 0, EXIF_PLACES[-1] + 6)
    return tf.cond(tf.strings.regex_full_match(start, EXIF_STARTS), lambda: _exif_orientation(contents), lambda: 1)


@cold_path(tf.TensorSpec([], tf.string))
def _exif_orientation(contents):
    first = tf.equal(tf.strings.substr(contents, EXIF_PLACES[0], 4), "Exif")
    data = _bytes(contents, tf.where(first, *EXIF_PLACES) + 6, EXIF_BYTES)
    big = data[0] == ord("M")

    def number(place):
        one, other = tf.gather(data, place), tf.gather(data, place + 1)
        return tf.where(big, 256 * one + other, one + 256 * other)

    # The directory's place has four bytes, of which the lower two are enough for so few data.
    directory = tf.minimum(number(tf.where(big, 6, 4)), EXIF_BYTES - 12 * EXIF_ENTRIES - 2)
    entries = directory + 2 + 12 * tf.range(EXIF_ENTRIES)
    given = (tf.range(EXIF_ENTRIES) < number(directory)) & (number(entries) == ORIENTATION_TAG)
    orientation = tf.reduce_max(tf.where(given, number(entries + 8), 0))
    return tf.where((orientation >= 1) & (orientation <= 8), orientation, 1)


def _bearable_size(size):
    pixels = tf.reduce_prod(tf.cast(size, tf.int64))
    return _refusing(f"The image has more than {MOST_PIXELS} pixels (height, width):", pixels <= MOST_PIXELS, size)


def _refusing(message, fine, size):
    """The size, int32 `[2]`, or an error."""
    size = tf.cast(size, tf.int32)
    with tf.control_dependencies([_check(fine, [message, size])]):
        return tf.identity(size)


def _check(fine, told):
    # Of the public function the error has another form outside of graphs.
    return tf.raw_ops.Assert(condition=fine, data=told)


def _bytes(contents, place, count):
    """Bytes of a file as int32 `[count + 1]`, zeros where it ends before; the last is one."""
    text = tf.strings.join([tf.strings.substr(contents, place, count), "\0" * (count + 1)])
    return tf.ensure_shape(tf.cast(tf.io.decode_raw(text, tf.uint8)[: count + 1], tf.int32), [count + 1])

"""What the first bytes of an image file tell, in TensorFlow's operations: files are judged before they are decoded.

A damaged or hostile file must not fill the memory, neither while training nor where a model is served.
"""

import tensorflow as tf

from pipelines.aside import aside

# 100 megapixels are 300 MB when decoded; a file of a few kilobytes can claim them.
MOST_PIXELS = 100_000_000
MOST_BYTES = 100_000_000
# Where EXIF data begin in a JPEG: at once, as cameras have it, or after the header of JFIF, as other software does.
EXIF_PLACES = (6, 24)
EXIF_STARTS = "|".join(rf"\C{{{place}}}Exif\x00\C*" for place in EXIF_PLACES)
# Of EXIF data so many bytes and entries are looked at; the orientation stands among the first.
EXIF_BYTES = 4096
EXIF_ENTRIES = 64
ORIENTATION_TAG = 0x0112
# Bytes of the longest header below, that of a BMP with a palette of 256 colours.
HEADER = 54 + 4 * 256


def bearable_file(contents):
    """The file itself; an error if it is too long to be read as an image."""
    length = tf.strings.length(contents)
    told = [f"The file has more than {MOST_BYTES} bytes:", length]
    with tf.control_dependencies([tf.debugging.Assert(length <= MOST_BYTES, told)]):
        return tf.identity(contents)


def jpeg_size(contents):
    """Height and width of a JPEG, int32 `[2]`; an error if these are too many pixels."""
    return _bearable_size(tf.io.extract_jpeg_shape(contents)[:2])


def refuse_unbearable(contents):
    """The file of a PNG, GIF, BMP or WebP; an error if it is none, has too many pixels, or is not decoded right."""
    start = _bytes(contents, 0, HEADER)

    def says(place, text):
        return tf.reduce_all(start[place : place + len(text)] == list(text))

    def png():
        return _bearable_size(tf.stack([_number(start, 20, 4, big=True), _number(start, 16, 4, big=True)]))

    def gif():
        return _bearable_size(tf.stack([_number(start, 8, 2), _number(start, 6, 2)]))

    kinds = [
        (says(0, b"\x89PNG"), png),
        (says(0, b"GIF8"), gif),
        (says(0, b"BM"), lambda: _bmp_size(start)),
        (says(0, b"RIFF") & says(8, b"WEBP"), lambda: _webp_size(start, says)),
    ]
    size = tf.case(kinds, default=lambda: _refusing("This is no JPEG, PNG, GIF, BMP or WebP file.", False, [0, 0]))
    with tf.control_dependencies([size]):
        return tf.identity(contents)


def jpeg_orientation(contents):
    """The orientation that the EXIF data of a JPEG give, int32 from 1 to 8; 1, upright, where they give none."""
    start = tf.strings.substr(contents, 0, EXIF_PLACES[-1] + 6)
    has_exif = tf.strings.regex_full_match(start, EXIF_STARTS)
    return tf.cond(has_exif, lambda: aside(_exif_orientation, contents), lambda: 1)


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


def _bmp_size(start):
    size = tf.stack([tf.abs(_number(start, 22, 4)), _number(start, 18, 4)])
    # TensorFlow takes the numbers of palette colours for shades of grey, without an error.
    palette = tf.reshape(start[54:], [256, 4])[:, :3]
    grey = tf.reduce_all(palette == tf.range(256)[:, None])
    bits = _number(start, 28, 2)
    readable = (bits == 24) | (bits == 32) | ((bits == 8) & grey)
    return _refusing("This is a BMP with a palette. Save it as PNG.", readable, _bearable_size(size))


def _webp_size(start, says):
    # TensorFlow overwrites memory that is not its own when it decodes some of these.
    still = ~says(12, b"VP8X") | (start[20] & 2 == 0)

    def lossy():
        return tf.stack([_number(start, 28, 2), _number(start, 26, 2)]) % 2**14

    def lossless():
        sides = _number(start, 21, 4)
        return tf.stack([sides // 2**14 % 2**14, sides % 2**14]) + 1

    def extended():
        return tf.stack([_number(start, 27, 3), _number(start, 24, 3)]) + 1

    size = tf.case([(says(12, b"VP8 "), lossy), (says(12, b"VP8L"), lossless)], default=extended)
    return _refusing("This is a moving WebP. Save one picture of it.", still, _bearable_size(size))


def _bearable_size(size):
    pixels = tf.reduce_prod(tf.cast(size, tf.int64))
    return _refusing(f"The image has more than {MOST_PIXELS} pixels (height, width):", pixels <= MOST_PIXELS, size)


def _refusing(message, fine, size):
    """The size, int32 `[2]`, or an error."""
    size = tf.cast(size, tf.int32)
    with tf.control_dependencies([tf.debugging.Assert(fine, [message, size])]):
        return tf.identity(size)


def _bytes(contents, place, count):
    """Bytes of a file as int32, zeros where it ends before."""
    text = tf.strings.join([tf.strings.substr(contents, place, count), "\0" * count])
    return tf.cast(tf.io.decode_raw(text, tf.uint8)[:count], tf.int32)


def _number(start, place, count, big=False):
    """The number, int64, that so many bytes stand for, least first unless `big`; of four, with a sign."""
    powers = [256**power for power in range(count)]
    number = tf.reduce_sum(tf.cast(start[place : place + count], tf.int64) * (powers[::-1] if big else powers))
    return tf.where(number < 2**31, number, number - 2**32)

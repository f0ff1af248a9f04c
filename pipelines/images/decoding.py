"""Reads and decodes image files; of a JPEG only the part that a transform takes."""

import tensorflow as tf

from pipelines.datasets.header_checks import CONVERTED_START, MOVES, as_decodable
from pipelines.images.cold_path import cold_path
from pipelines.images.crop_and_resize import Cut, slice_window
from pipelines.images.image_headers import check_file_size, check_header, jpeg_orientation, jpeg_size
from tfdml.registry.arguments import Tensor

# The last two make a decoded window equal to the window of a decoded image, and agree with libjpeg's slow transform.
JPEG = {"channels": 3, "dct_method": "INTEGER_ACCURATE", "fancy_upscaling": False}
# A box around any image.
WHOLE = (0, 0, 2**30, 2**30)
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

    Args:
        contents: the encoded image, a scalar string.
        box: `[4]` int32, left, top, right and bottom of the part to decode, in pixels of the stored image, before it
            is rotated; what lies outside of the image is ignored. Default: all.
    """
    contents = check_file_size(contents)
    return _decode(contents, tf.io.is_jpeg(contents), box)


def decode_cut(
    contents: Tensor, cut: Cut, seed: Tensor, *, box: Tensor | None = None, shrink: bool = False
) -> tf.Tensor:
    """Computes `cut(decode(contents, box), seed)`, in less time where possible.

    Args:
        contents: the encoded image.
        cut: `pipelines.images.crop_and_resize.Cut`.
        seed: `[2]` int64, for the cut.
        box: as in `decode`.
        shrink: decode a JPEG at 1/2, 1/4 or 1/8 where its window is resized to that or less; pixels differ.
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
    image = tf.cond(jpeg, lambda: _decode_jpeg(contents), lambda: _decode_other(contents))
    image = tf.ensure_shape(image, [None, None, 3])
    image = image if box is None else _crop(image, box)
    orientation = tf.cond(jpeg, lambda: jpeg_orientation(contents), lambda: 1)
    return tf.cond(orientation == 1, lambda: image, lambda: _upright(image, orientation))


def _decode_jpeg(contents):
    with tf.control_dependencies([jpeg_size(contents)]):
        return tf.io.decode_jpeg(contents, **JPEG)


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


def _crop(image, box):
    corner, size = _inside(tf.shape(image)[:2], box)
    return slice_window(image, *tf.unstack(corner), *tf.unstack(size))


def _inside(size, box):
    """Returns top left corner and size, `[2]` each, of the part of an image in a box, at least one pixel."""
    left, top, right, bottom = tf.unstack(tf.cast(box, tf.int32))
    corner = tf.clip_by_value(tf.stack([top, left]), 0, size - 1)
    return corner, tf.maximum(tf.minimum(tf.stack([bottom, right]), size), corner + 1) - corner

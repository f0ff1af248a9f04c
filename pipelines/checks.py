"""Checks of image files before they are decoded: headers, formats, and the cost of decoding."""

import contextlib
import functools
import importlib.util
import io
import math
import os
import struct
import zlib

# Pillow's names of the formats that `pipelines.images.decoding` reads. MPO is a JPEG followed by further images.
READ = ("JPEG", "MPO", "PNG", "WEBP")
# Formats that Pillow decodes and TensorFlow does not: name of the format, module that Pillow needs for it, file
# extensions, and how to install the module.
CONVERTED = (
    ("AVIF", "PIL._avif", (".avif",), "pip install --upgrade pillow"),
    ("HEIF", "pillow_heif", (".heic", ".heif", ".hif"), "pip install 'tfdml[heic]'"),
)
# Number of bytes at the start of a file that determine whether it is converted, and the animation bit of extended WebP.
CONVERTED_START, MOVES = 21, 2
# EXIF tag of the orientation.
ORIENTATION = 0x0112
# Errors that Pillow raises for a damaged file.
DAMAGED = (OSError, ValueError, SyntaxError, RuntimeError, struct.error, OverflowError)
# First two bytes of a file to its file extension.
ENDING_OF = {b"\xff\xd8": ".jpg", b"\x89P": ".png", b"RI": ".webp"}
# 100 megapixels need 300 MB when decoded, and a file of a few kilobytes can claim to have that many.
MOST_PIXELS = 100_000_000
# Parts of a file before its pixels. Cameras and programs write up to a few hundred. Pillow needs a second for 250,000.
MOST_PARTS = 5000
CHUNK = struct.Struct(">I4s")
# JPEG markers after which Pillow expects no length.
ALONE = {0x00, 0x01, 0xC8, *range(0xD0, 0xDA), *range(0xF0, 0xFE)}


def as_decodable(contents: bytes) -> bytes:
    """Returns file contents that TensorFlow can decode; converts AVIF, HEIC and animated WebP to PNG.

    The PNG contains the first image of the file, upright. A file that Pillow cannot read is returned unchanged, so
    that the decoder reports the error.
    """
    start = contents[:CONVERTED_START]
    moves = start[:4] == b"RIFF" and start[8:16] == b"WEBPVP8X" and len(start) == CONVERTED_START and start[20] & MOVES
    if start[4:8] != b"ftyp" and not moves:
        return contents
    from PIL import Image, ImageOps

    open_heic()
    png = io.BytesIO()
    try:
        with Image.open(io.BytesIO(contents)) as image:
            if image.width * image.height > MOST_PIXELS:
                return contents
            # Level 1 is three times as fast as the default, and larger levels save little space.
            ImageOps.exif_transpose(image).convert("RGB").save(png, "PNG", compress_level=1)
    except (*DAMAGED, Image.DecompressionBombError):
        return contents
    return png.getvalue()


def decoded_size(image):
    """Returns the width and height of an opened image before decoders turn it. Files that are converted are upright."""
    is_converted = image.is_animated if image.format == "WEBP" else image.format in {name for name, *_ in CONVERTED}
    is_turned = is_converted and image.getexif().get(ORIENTATION, 1) in (5, 6, 7, 8)
    return image.size[::-1] if is_turned else image.size


def why_unread(ending: str) -> str | None:
    """Returns how to read files with this extension, such as `pip install 'tfdml[heic]'`, or None if nothing helps."""
    return next((remedy for _, _, endings, remedy in CONVERTED if ending in endings), None)


def converted_endings() -> tuple[str, ...]:
    """Returns the extensions of the files that this module converts, such as `.avif`."""
    return tuple(
        ending for _, module, endings, _ in CONVERTED if importlib.util.find_spec(module) for ending in endings
    )


@functools.cache
def open_heic():
    """Lets Pillow open HEIC files if pillow-heif is installed."""
    if importlib.util.find_spec("pillow_heif"):
        import pillow_heif

        pillow_heif.register_heif_opener()


def wrong_header(path, most_pixels=MOST_PIXELS):
    """Returns what is wrong with the header of an image file or file object, such as too many pixels, or None."""
    is_path = isinstance(path, str | os.PathLike)
    try:
        with open(path, "rb") if is_path else contextlib.nullcontext(path) as file:
            return _wrong(file, most_pixels)
    except OSError as error:
        return f"is not a readable image ({error.strerror or error})"


def _wrong(file, most_pixels):
    from PIL import Image, UnidentifiedImageError

    open_heic()
    if _has_too_many_parts(file):
        return f"is not a readable image (more than {MOST_PARTS:,} parts before its pixels); save it again"
    file.seek(0)
    try:
        with Image.open(file) as image:
            if image.format not in (*READ, *(name for name, *_ in CONVERTED)):
                return f"is a {image.format} file, which tfdml does not read; save it as JPEG or PNG"
            if image.width * image.height > most_pixels:
                return f"has {image.width} x {image.height} pixels, more than {most_pixels:,}; make it smaller"
    except UnidentifiedImageError:
        file.seek(0)
        start = file.read(12)
        if start[4:8] == b"ftyp":
            name, module, _, remedy = CONVERTED[start[8:12] not in (b"avif", b"avis")]
            if not importlib.util.find_spec(module):
                return f"is an image that needs another package: run {remedy} to read {name}"
        return "is not a readable image (its format is unknown, or its header is incomplete)"
    except Image.DecompressionBombError as error:
        return f"is not a readable image ({error})"
    except (ValueError, SyntaxError, RuntimeError, struct.error, OverflowError) as error:
        # Pillow rejects a PNG with much text, which TensorFlow reads.
        return None if "text" in str(error).lower() else f"is not a readable image ({error})"
    return None


def _has_too_many_parts(file):
    """Whether a JPEG has more than `MOST_PARTS` segments, or a PNG more chunks, before its pixels."""
    start = file.read(8)
    steps = segment_length if start[:2] == b"\xff\xd8" else _chunk if start[:4] == b"\x89PNG" else None
    if steps is None:
        return False
    place = 2 if steps is segment_length else 8
    for _ in range(MOST_PARTS):
        file.seek(place)
        length = steps(file.read(8))
        if not length:
            return False
        place += length
    return True


def segment_length(start):
    """Returns the length of the JPEG segment with this start, or 0 if the pixels start or the file ends here."""
    if len(start) < 4 or start[:2] == b"\xff\xda":
        return 0
    # Other bytes may precede a marker, which Pillow reads one by one, and some markers have no length.
    if start[0] != 0xFF or start[1] == 0xFF:
        return 1
    return 2 if start[1] in ALONE else 2 + int.from_bytes(start[2:4])


def _chunk(start):
    """Returns the length of the PNG chunk with this start, or 0 if the pixels start or the file ends here."""
    if len(start) < CHUNK.size:
        return 0
    length, kind = CHUNK.unpack(start)
    return 0 if kind == b"IDAT" else length + 12


# Encoders write 4 to 23 scans; libjpeg writes 10.
FEW_SCANS = 25
SCAN_START = b"\xff\xda"
# Compressed texts: libpng unpacks up to 8 MB of each in 30 ms and keeps all of them. Programs write one or two.
TEXTS, MOST_TEXTS = (b"zTXt", b"iTXt"), 20
# Extra bytes, beyond the pixel data, that can be decompressed in one second.
SPARE_BYTES = 2**29
MOST_EXPANSION = 1032
# Pixels that decode within milliseconds, and bytes that decompress in the same time.
QUICK, QUICK_BYTES = 2**19, 2**24
# Bytes of a file that can be scanned in 0.1 ms.
QUICK_FILE = 2**19
PART = 2**20
# Bytes per pixel by a PNG's color type, at 8 bits per channel.
SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
PNG_HEADER = struct.Struct(">16xIIBB")
# Markers of the JPEG segments that contain the image size, and number of segments to search for one.
FRAMES, NEAR = {bytes([marker]) for marker in {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}}, 100


def is_quick(contents):
    """Whether an image file certainly decodes in milliseconds. False for WebP and large files, which may be slow."""
    if len(contents) > QUICK_FILE:
        return False
    if contents[:2] == b"\xff\xd8":
        return 0 < _pixels_of_frame(contents) <= QUICK and contents.count(SCAN_START) <= FEW_SCANS
    if contents[:4] == b"\x89PNG" and len(contents) >= PNG_HEADER.size:
        width, height, *_ = PNG_HEADER.unpack_from(contents)
        return width * height <= QUICK and len(contents) * MOST_EXPANSION <= QUICK_BYTES
    return False


def _pixels_of_frame(contents):
    """Returns the number of pixels of a JPEG, found segment by segment as decoders do, or 0 if it is not near."""
    place = 2
    for _ in range(NEAR):
        length = segment_length(contents[place : place + 8])
        if contents[place + 1 : place + 2] in FRAMES and length and place + 9 <= len(contents):
            return math.prod(struct.unpack_from(">HH", contents, place + 5))
        if not length:
            return 0
        place += length
    return 0


def costly_png(contents):
    """Returns why a PNG is too costly to decode, such as `has 30 compressed texts`, or None, also for other files."""
    if contents[:4] != b"\x89PNG" or len(contents) < PNG_HEADER.size:
        return None
    texts = sum(contents.count(kind) for kind in TEXTS)
    if texts > MOST_TEXTS:
        return f"has {texts:,} compressed texts, more than {MOST_TEXTS}; save it again without them"
    width, height, depth, color = PNG_HEADER.unpack_from(contents)
    # An interlaced PNG has less than twice the number of rows, and each row has an extra byte.
    most = 2 * height * (width * SAMPLES.get(color, 4) * max(depth, 8) // 8 + 8)
    if len(contents) * MOST_EXPANSION > most + SPARE_BYTES and _unpacked(contents, most) > most:
        return "has compressed data that is not part of its pixels; save it again"
    return None


def _unpacked(contents, most):
    """Returns the decompressed size of a PNG's pixel data in bytes, or a number above `most` if it is larger."""
    unpacker, count, place, begun = zlib.decompressobj(), 0, 8, False
    # The decoder reports errors in the data.
    with contextlib.suppress(zlib.error):
        while place + 8 <= len(contents):
            length, kind = CHUNK.unpack_from(contents, place)
            if begun and kind != b"IDAT":
                break
            packed = contents[place + 8 : place + 8 + length] if kind == b"IDAT" else b""
            while packed and count <= most and not unpacker.eof:
                count += len(unpacker.decompress(packed, PART))
                packed = unpacker.unconsumed_tail
            place, begun = place + length + 12, kind == b"IDAT"
    return count

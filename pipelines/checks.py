"""Checks of image files before they are decoded: headers, formats, and what decoding costs."""

import contextlib
import functools
import importlib.util
import io
import math
import os
import struct
import zlib

# Pillow's names of the formats that `pipelines.images.decoding` reads; MPO is a JPEG with further pictures behind it.
READ = ("JPEG", "MPO", "PNG", "WEBP")
# Of formats that Pillow decodes and TensorFlow does not: the name of the format, the module that Pillow needs for it,
# the endings of names, and how to get the module.
CONVERTED = (
    ("AVIF", "PIL._avif", (".avif",), "pip install --upgrade pillow"),
    ("HEIF", "pillow_heif", (".heic", ".heif", ".hif"), "pip install 'tfdml[heic]'"),
)
# Bytes of a file that tell whether it is converted, and the bit of an extended WebP that says that it moves.
CONVERTED_START, MOVES = 21, 2
# What Pillow raises for a damaged file.
DAMAGED = (OSError, ValueError, SyntaxError, RuntimeError, struct.error, OverflowError)
# First two bytes of a file to the ending of its name.
ENDING_OF = {b"\xff\xd8": ".jpg", b"\x89P": ".png", b"RI": ".webp"}
# 100 megapixels are 300 MB when decoded; a file of a few kilobytes can claim them.
MOST_PIXELS = 100_000_000
# Parts of a file before its pixels. Cameras and programs write up to some hundred; Pillow takes a second for 250,000.
MOST_PARTS = 5000
CHUNK = struct.Struct(">I4s")
# Markers of JPEG after which Pillow expects no length.
ALONE = {0x00, 0x01, 0xC8, *range(0xD0, 0xDA), *range(0xF0, 0xFE)}


def as_decodable(contents: bytes) -> bytes:
    """Returns the contents of an image file that TensorFlow decodes: of an AVIF, HEIC or animated WebP those of a PNG.

    The PNG has the first picture of the file, upright. A file that Pillow cannot read stays as it is; who decodes it
    says so.
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
            # Level 1 takes a third of the time of the default, and larger levels save little.
            ImageOps.exif_transpose(image).convert("RGB").save(png, "PNG", compress_level=1)
    except (*DAMAGED, Image.DecompressionBombError):
        return contents
    return png.getvalue()


def why_unread(ending: str) -> str | None:
    """Returns how to read files with this ending, such as `pip install 'tfdml[heic]'`; None if nothing helps."""
    return next((remedy for _, _, endings, remedy in CONVERTED if ending in endings), None)


def converted_endings() -> tuple[str, ...]:
    """Returns the endings of the files that are converted here, such as `.avif`."""
    return tuple(
        ending for _, module, endings, _ in CONVERTED if importlib.util.find_spec(module) for ending in endings
    )


@functools.cache
def open_heic():
    """Lets Pillow open HEIC files, if the package for them is installed."""
    if importlib.util.find_spec("pillow_heif"):
        import pillow_heif

        pillow_heif.register_heif_opener()


def wrong_header(path, most_pixels=MOST_PIXELS):
    """Returns what is wrong with the header of an image file, or file object, of at most so many pixels; or None."""
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
        return f"is not a readable image (with more than {MOST_PARTS:,} parts before its pixels); save it anew"
    file.seek(0)
    try:
        with Image.open(file) as image:
            if image.format not in (*READ, *(name for name, *_ in CONVERTED)):
                return f"is a {image.format}, which is not read; save it as JPEG or PNG"
            if image.width * image.height > most_pixels:
                return f"has {image.width} x {image.height} pixels, more than {most_pixels:,}; make it smaller"
    except UnidentifiedImageError:
        file.seek(0)
        start = file.read(12)
        if start[4:8] == b"ftyp":
            name, module, _, remedy = CONVERTED[start[8:12] not in (b"avif", b"avis")]
            if not importlib.util.find_spec(module):
                return f"is an image that needs another package: {remedy} lets tfdml read {name}"
        return "is not a readable image (of no known format, or without a whole header)"
    except Image.DecompressionBombError as error:
        return f"is not a readable image ({error})"
    except (ValueError, SyntaxError, RuntimeError, struct.error, OverflowError) as error:
        # Pillow refuses a PNG with much text beside the pixels, which TensorFlow reads.
        return None if "text" in str(error).lower() else f"is not a readable image ({error})"
    return None


def _has_too_many_parts(file):
    """Whether there are more than `MOST_PARTS` segments of a JPEG, or chunks of a PNG, before the pixels."""
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
    """Returns the length of the segment of a JPEG that starts so, 0 where the pixels start or the file ends."""
    if len(start) < 4 or start[:2] == b"\xff\xda":
        return 0
    # Before a marker there may be other bytes, which Pillow reads one by one, and after some there is no length.
    if start[0] != 0xFF or start[1] == 0xFF:
        return 1
    return 2 if start[1] in ALONE else 2 + int.from_bytes(start[2:4])


def _chunk(start):
    """Returns the length of the chunk of a PNG that starts so, 0 where the pixels start or the file ends."""
    if len(start) < CHUNK.size:
        return 0
    length, kind = CHUNK.unpack(start)
    return 0 if kind == b"IDAT" else length + 12


# Scripts of encoders have 4 to 23 scans, libjpeg's 10.
FEW_SCANS = 25
SCAN_START = b"\xff\xda"
# Texts that are compressed: libpng unpacks up to 8 MB of each, in 30 ms, and keeps all of them. Programs
# write one or two.
TEXTS, MOST_TEXTS = (b"zTXt", b"iTXt"), 20
# So many bytes more than the pixels are unpacked in a second.
SPARE_BYTES = 2**29
MOST_EXPANSION = 1032
# Pixels that take milliseconds, and bytes that are unpacked in as many.
QUICK, QUICK_BYTES = 2**19, 2**24
# Bytes of a file that are looked through in a tenth of a millisecond.
QUICK_FILE = 2**19
PART = 2**20
# Bytes of a pixel by a PNG's color type, at 8 bits each.
SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
PNG_HEADER = struct.Struct(">16xIIBB")
# Markers of the segments with the size of a JPEG, and segments before it that are looked at.
FRAMES, NEAR = {bytes([marker]) for marker in {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}}, 100


def is_quick(contents):
    """Whether an image file decodes in milliseconds, whatever it holds; of a WebP, or a large file, nobody knows."""
    if len(contents) > QUICK_FILE:
        return False
    if contents[:2] == b"\xff\xd8":
        return 0 < _pixels_of_frame(contents) <= QUICK and contents.count(SCAN_START) <= FEW_SCANS
    if contents[:4] == b"\x89PNG" and len(contents) >= PNG_HEADER.size:
        width, height, *_ = PNG_HEADER.unpack_from(contents)
        return width * height <= QUICK and len(contents) * MOST_EXPANSION <= QUICK_BYTES
    return False


def _pixels_of_frame(contents):
    """Returns the number of pixels of a JPEG as decoders find it, segment by segment; 0 if it is not near the start."""
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
    """Returns why a PNG is not worth decoding, such as `has 30 compressed texts`; None if it is, or is no PNG."""
    if contents[:4] != b"\x89PNG" or len(contents) < PNG_HEADER.size:
        return None
    texts = sum(contents.count(kind) for kind in TEXTS)
    if texts > MOST_TEXTS:
        return f"has {texts:,} compressed texts, more than {MOST_TEXTS}; save it anew without them"
    width, height, depth, color = PNG_HEADER.unpack_from(contents)
    # Rows of an interlaced PNG are fewer than twice as many, and each has a byte more.
    most = 2 * height * (width * SAMPLES.get(color, 4) * max(depth, 8) // 8 + 8)
    if len(contents) * MOST_EXPANSION > most + SPARE_BYTES and _unpacked(contents, most) > most:
        return "has compressed data that are not its pixels; save it anew"
    return None


def _unpacked(contents, most):
    """Returns how many bytes the compressed data of a PNG's pixels have, or more than `most` if they have more."""
    unpacker, count, place, begun = zlib.decompressobj(), 0, 8, False
    # Decoders say what is wrong with the data.
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

"""Checks the headers of image files, before anything is decoded, and converts what TensorFlow does not decode."""

import functools
import importlib.util
import io
import os
import struct

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


def is_converted(start: bytes) -> bool:
    """Returns whether a file that starts so is an AVIF, a HEIC or an animated WebP, which `as_decodable` converts."""
    moves = start[:4] == b"RIFF" and start[8:16] == b"WEBPVP8X" and len(start) >= CONVERTED_START and start[20] & MOVES
    return start[4:8] == b"ftyp" or bool(moves)


def as_decodable(contents: bytes) -> bytes:
    """Returns the contents of an image file that TensorFlow decodes: of an AVIF, HEIC or animated WebP those of a PNG.

    The PNG has the first picture of the file, upright. A file that Pillow cannot read stays as it is; who decodes it
    says so.
    """
    if not is_converted(contents):
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
    """Returns how to make an ending of names one that is read, such as `pip install 'tfdml[heic]'`; None: nothing does.

    Args:
        ending: such as `.heic`, of those that are not read here.
    """
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
    """Returns what is wrong with the header of an image file, such as `is not a readable image`, or None.

    Args:
        path: the file, or a file object.
        most_pixels: how many the image may have.
    """
    try:
        if isinstance(path, str | os.PathLike):
            with open(path, "rb") as file:
                return _wrong(file, most_pixels)
        return _wrong(path, most_pixels)
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
        if remedy := _missing_module(file):
            return f"is an image that needs another package: {remedy}"
        return "is not a readable image (of no known format, or without a whole header)"
    except Image.DecompressionBombError as error:
        return f"is not a readable image ({error})"
    except (ValueError, SyntaxError, RuntimeError, struct.error, OverflowError) as error:
        # Pillow refuses a PNG with much text beside the pixels, which TensorFlow reads.
        return None if "text" in str(error).lower() else f"is not a readable image ({error})"
    return None


def _missing_module(file):
    """Returns how to get the module that reads a file, if it is an AVIF or HEIC and the module is missing."""
    file.seek(0)
    start = file.read(12)
    if start[4:8] != b"ftyp":
        return None
    name, module, _, remedy = CONVERTED[start[8:12] not in (b"avif", b"avis")]
    return None if importlib.util.find_spec(module) else f"{remedy} lets tfdml read {name}"


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

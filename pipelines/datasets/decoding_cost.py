"""Finds image files that are small and take long to decode, before anything is decoded.

Decoders repeat work as often as a file tells them: they go over all pixels of a JPEG for each of its scans, which may
have ten bytes each, and unpack all of a PNG's compressed data, 1,032 bytes of each byte, whether it has the pixels or
not.
"""

import re
import struct
import zlib

from pipelines.datasets.header_checks import segment_length

# A scan takes 0.3 to 2 ns for each pixel, so `SCANNED` pixels take 2 seconds at most. Scripts of encoders have 4 to 23
# scans, libjpeg's 10; so photos of any size pass, and small images with the most that a script can say.
FEW_SCANS, MANY_SCANS, SCANNED = 25, 1000, 1_000_000_000
# A scan has ten bytes or more, and takes as long as a few thousand pixels at least. Where bytes times pixels are not
# more, those that fit in take a second; so scans of most images of data sets need not be counted.
FREE, LEAST_PIXELS = 20_000_000_000, 2**13
# The header of a scan of 1 to 4 components. With its length, which libjpeg checks, it hardly occurs by chance in what
# else a file holds, such as the film behind a phone's photo.
SCAN_START = b"\xff\xda"
SCAN = tuple(SCAN_START + b"\x00" + bytes((6 + 2 * count, count)) for count in range(1, 5))
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
PNG_HEADER, CHUNK = struct.Struct(">16xIIBB"), struct.Struct(">I4s")

_SCANS = re.compile(b"|".join(map(re.escape, SCAN)))
# Headers of frames may overlap with what only looks like one.
_FRAMES = re.compile(rb"(?=\xff[\xc0-\xc3\xc5-\xc7\xc9-\xcb\xcd-\xcf]..\x08(....))", re.DOTALL)
_SIZE = struct.Struct(">HH")
# Markers of the segments with the size of a JPEG, and segments before it that are looked at.
FRAMES, NEAR = {bytes([marker]) for marker in {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}}, 100


def most_scans(pixels):
    """Returns how many scans a JPEG of so many pixels may have."""
    return max(FEW_SCANS, min(MANY_SCANS, SCANNED // max(pixels, 1)))


def why_costly(contents):
    """Returns why the contents of an image file are not worth decoding, such as `has 1,010 scans`, or None."""
    if contents[:2] == b"\xff\xd8":
        # libjpeg writes to standard error by itself where a file ends in its header.
        return _costly_jpeg(contents) if SCAN_START in contents else "ends before its pixels"
    if contents[:4] == b"\x89PNG" and len(contents) >= PNG_HEADER.size:
        return _costly_png(contents)
    return None


def is_quick(contents):
    """Whether an image file decodes in milliseconds, whatever it holds; of a WebP, or a large file, nobody knows."""
    if len(contents) > QUICK_FILE:
        return False
    if contents[:2] == b"\xff\xd8":
        return 0 < _pixels_of_frame(contents) <= QUICK and _scans(contents) <= FEW_SCANS
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
            height, width = _SIZE.unpack_from(contents, place + 5)
            return height * width
        if not length:
            return 0
        place += length
    return 0


def _scans(contents):
    return sum(1 for _ in _SCANS.finditer(contents))


def _costly_jpeg(contents):
    scans = _scans(contents)
    if scans <= FEW_SCANS:
        return None
    pixels = _jpeg_pixels(contents)
    if len(contents) * max(pixels, LEAST_PIXELS) <= FREE or scans <= most_scans(pixels):
        return None
    return f"has {scans:,} scans, more than {most_scans(pixels):,} for its size; save it anew"


def _jpeg_pixels(contents):
    """Returns the number of pixels by the largest header of a frame that the file may have."""
    return max((height * width for height, width in map(_SIZE.unpack, _FRAMES.findall(contents))), default=0)


def _costly_png(contents):
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
    unpacker, count = zlib.decompressobj(), 0
    try:
        for packed in _pixel_data(contents):
            while packed and count <= most and not unpacker.eof:
                count += len(unpacker.decompress(packed, PART))
                packed = unpacker.unconsumed_tail
    except zlib.error:
        # Decoders will say so.
        pass
    return count


def _pixel_data(contents):
    """Yields the compressed data of a PNG's pixels, which lie one after another."""
    place, begun = 8, False
    while place + 8 <= len(contents):
        length, kind = CHUNK.unpack_from(contents, place)
        if kind == b"IDAT":
            yield contents[place + 8 : place + 8 + length]
        elif begun:
            return
        place, begun = place + length + 12, kind == b"IDAT"

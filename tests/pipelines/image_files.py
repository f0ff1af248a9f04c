"""Image files in memory, for the tests of what reads them."""

import io
import struct
import zlib

import numpy as np
from PIL import Image


def noise(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8)


def gradient(height, width):
    """Colours that tell where a pixel is, smooth enough for JPEG: red is the row, green the column."""
    rows, columns = np.meshgrid(np.linspace(0, 255, height), np.linspace(0, 255, width), indexing="ij")
    return np.stack([rows, columns, np.full_like(rows, 90)], axis=2).astype(np.uint8)


def encoded(pixels, file_format, mode="RGB", **options):
    """The file of an image, as Pillow writes it."""
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(np.asarray(pixels, np.uint8))
    file = io.BytesIO()
    image.convert(mode).save(file, file_format, **options)
    return file.getvalue()


def moving(file_format, frames, **options):
    file = io.BytesIO()
    pictures = [Image.fromarray(frame) for frame in frames]
    pictures[0].save(file, file_format, save_all=True, append_images=pictures[1:], **options)
    return file.getvalue()


def with_orientation(pixels, orientation, big_endian=False, first=True):
    """A JPEG that EXIF data say is turned; they stand at once or after the header of JFIF."""
    jpeg = encoded(pixels, "JPEG", quality=95, subsampling=0)
    jfif, rest = jpeg[2:20], jpeg[20:]
    order = ">" if big_endian else "<"
    entries = [(0x010F, 2, 4, b"me\0\0"), (0x0112, 3, 1, struct.pack(order + "HH", orientation, 0))]
    directory = struct.pack(order + "H", len(entries))
    for tag, kind, count, value in entries:
        directory += struct.pack(order + "HHI", tag, kind, count) + value
    tiff = (b"MM\0*" if big_endian else b"II*\0") + struct.pack(order + "I", 8) + directory + bytes(4)
    exif = b"Exif\0\0" + tiff
    segment = b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif
    return jpeg[:2] + (segment + jfif if first else jfif + segment) + rest


def chunk(kind, data):
    """A chunk of a PNG."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(rows, width, height, before=b"", after=b""):
    """A PNG with these unpacked data, and chunks before and after them."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    data = chunk(b"IDAT", zlib.compress(rows, 9))
    return b"\x89PNG\r\n\x1a\n" + header + before + data + after + chunk(b"IEND", b"")


def with_scans(count, side, **options):
    """A progressive JPEG whose last scan is repeated until it has so many."""
    file = encoded(np.full((side, side, 3), 77), "JPEG", progressive=True, **options)
    last = file[file.rindex(b"\xff\xda") : -2]
    return file[:-2] + last * (count - file.count(b"\xff\xda")) + b"\xff\xd9"


def claiming(file_format, width, height):
    """A small file whose header claims a size."""
    if file_format == "PNG":
        return png(bytes(999), width, height)
    options = {"JPEG": {}, "WebP": {"lossless": True}, "lossy WebP": {}, "extended WebP": {"icc_profile": b"profile"}}
    file = bytearray(encoded(noise(4, 4), file_format.split()[-1], **options[file_format]))
    if file_format == "JPEG":
        place = file.index(b"\xff\xc0") + 5
        file[place : place + 4] = struct.pack(">HH", height, width)
    elif file_format == "lossy WebP":
        file[26:30] = struct.pack("<HH", width, height)
    elif file_format == "extended WebP":
        file[24:30] = struct.pack("<I", width - 1)[:3] + struct.pack("<I", height - 1)[:3]
    elif file_format == "WebP":
        file[21:25] = struct.pack("<I", (width - 1) | (height - 1) << 14)
    return bytes(file)

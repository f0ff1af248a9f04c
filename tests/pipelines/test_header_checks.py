"""Headers of image files are checked before an image is decoded."""

import io

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from pipelines.checks import wrong_header

PICTURE = Image.fromarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3))


def encoded(file_format, **options):
    file = io.BytesIO()
    PICTURE.save(file, file_format, **options)
    return file.getvalue()


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP"])
def test_what_is_read_is_fine(file_format):
    assert wrong_header(io.BytesIO(encoded(file_format))) is None


def test_a_png_with_much_text_is_fine():
    about = PngImagePlugin.PngInfo()
    about.add_text("workflow", "x" * 2**21, zip=True)
    assert wrong_header(io.BytesIO(encoded("PNG", pnginfo=about))) is None


@pytest.mark.parametrize(
    "content, message",
    [
        (encoded("TIFF"), "is a TIFF, which is not read"),
        (encoded("PPM"), "is a PPM, which is not read"),
        (encoded("GIF"), "is a GIF, which is not read; save it as JPEG or PNG"),
        (encoded("BMP"), "is a BMP, which is not read; save it as JPEG or PNG"),
        (b"P5 is out of stock, see the other page", "is not a readable image"),
        (b"P1 photographs", "is not a readable image"),
        (encoded("PNG")[:20], "is not a readable image"),
        (b"", "is not a readable image"),
    ],
)
def test_what_is_not_read_is_told(content, message):
    told = wrong_header(io.BytesIO(content))
    assert message in told and "BytesIO" not in told


def test_too_many_pixels_are_told():
    assert "has 8 x 8 pixels, more than 63" in wrong_header(io.BytesIO(encoded("PNG")), 63)

"""Decodes and resizes images with Pillow, if TensorFlow does not prepare them."""

import io
import warnings
from typing import Any

import numpy as np

from pipelines.checks import MOST_PIXELS, ORIENTATION

# Formats that TensorFlow decodes as well.
FORMATS = ("JPEG", "PNG", "WEBP")


def decoded(contents: bytes, box: Any = None) -> np.ndarray:
    """Decodes a JPEG, PNG or WebP to uint8 `[H, W, 3]`, like `pipelines.images.decoding.decode`.

    Pixels of JPEG files with reduced colors (4:2:0) differ slightly, because Pillow interpolates the colors.

    Raises:
        ValueError: If the contents are not such an image, or if it has too many pixels.
    """
    from PIL import Image

    try:
        with warnings.catch_warnings():
            # The size is checked below.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(contents), formats=FORMATS) as image:
                if image.width * image.height > MOST_PIXELS:
                    raise ValueError(f"The image has more than {MOST_PIXELS} pixels: {image.height} x {image.width}")
                is_jpeg = image.format in ("JPEG", "MPO")
                orientation = image.getexif().get(ORIENTATION, 1) if is_jpeg else 1
                pixels = _eight_bits(image) if image.mode.startswith("I") else np.asarray(image.convert("RGB"))
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        reason = str(error).partition("<")[0].strip()
        raise ValueError(f"The file is not a JPEG, PNG or WebP image that can be decoded: {reason}") from None
    if box is not None:
        left, top, right, bottom = (int(side) for side in box)
        top, left = (min(max(each, 0), most - 1) for each, most in zip((top, left), pixels.shape[:2], strict=True))
        pixels = pixels[top : max(bottom, top + 1), left : max(right, left + 1)]
    return _upright(pixels, orientation)


def _eight_bits(image):
    """Returns the high bytes of a gray image with 16 bits, like TensorFlow. Pillow's conversion would clip to 255."""
    return np.repeat((np.asarray(image) >> 8).astype(np.uint8)[:, :, None], 3, axis=2)


def _upright(pixels, orientation):
    """Undoes an EXIF orientation, see `pipelines.images.decoding`."""
    if orientation in (5, 6, 7, 8):
        pixels = pixels.transpose(1, 0, 2)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return pixels[::-1] if orientation in (3, 4, 7, 8) else pixels


def resized_part(image: np.ndarray, rows: Any, columns: Any, interpolation: str) -> np.ndarray:
    """Resizes an image like `pipelines.images.resizing.resize_part`, equal up to rounding."""
    from PIL import Image

    kernels = {"bilinear": "BILINEAR", "bicubic": "BICUBIC", "lanczos3": "LANCZOS"}
    if interpolation not in kernels:
        raise ValueError(
            f"interpolation={interpolation!r} works only on TensorFlow. Expected one of {', '.join(kernels)} on other "
            "Keras backends."
        )
    kernel = Image.Resampling[kernels[interpolation]]
    (top, bottom), (left, right) = (
        (-float(shift) / float(scale), (int(count) - float(shift)) / float(scale))
        for count, scale, shift in (rows, columns)
    )
    # Rounding may move the box out of the image, which Pillow does not accept.
    box = (max(left, 0.0), max(top, 0.0), min(right, image.shape[1]), min(bottom, image.shape[0]))
    size = int(columns[0]), int(rows[0])
    channels = np.ascontiguousarray(np.moveaxis(image, 2, 0), np.float32)
    return np.stack([np.asarray(Image.fromarray(each).resize(size, kernel, box)) for each in channels], axis=2)

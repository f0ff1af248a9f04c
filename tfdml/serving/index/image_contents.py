"""Contents of image files, of images in any form."""

import io
import os
from pathlib import Path

import numpy as np

from pipelines.preprocessing import why_no_pixels
from tfdml.serving.embedding.image_list import ImageList


def contents_of(image, place):
    """Returns the contents of a file for an image: those of its path, or of a PNG with its pixels."""
    if isinstance(image, bytes | bytearray):
        return bytes(image)
    if isinstance(image, str | Path):
        try:
            return ImageList([os.fspath(image)], [None]).read(0)
        except OSError as error:
            raise ValueError(f"{image} cannot be read: {error.strerror or error}.") from None
    pixels = np.asarray(image)
    reason = why_no_pixels(pixels, place)
    if reason:
        raise ValueError(reason)
    if pixels.dtype != np.uint8:
        pixels = np.clip(np.round(pixels), 0, 255).astype(np.uint8)
    from PIL import Image

    file = io.BytesIO()
    # Only for a moment: compressing takes longer than what it saves.
    Image.fromarray(pixels).save(file, "PNG", compress_level=0)
    return file.getvalue()

"""Images inside the page, each within a number of bytes."""

import base64
import io
import math

from PIL import Image

from tfdml.reporting.page.elements import element, empty_element

# Bytes of all pictures of a page, and the types that browsers draw.
PICTURES = 3_000_000
TYPES = {".png": "image/png", ".svg": "image/svg+xml"}
# Longest sides, in pixels, that are tried one after another, and the quality of the JPEG.
SIDES = (1600, 1200, 800, 512, 384, 320, 256, 192, 144, 96, 64)
QUALITY = 82


def picture_figures(captions):
    """Returns the pictures of a run with their captions.

    Args:
        captions: path of a PNG or SVG file to what it shows.
    """
    share = PICTURES // max(len(captions), 1)
    figures = [_figure(path, caption, share) for path, caption in captions.items()]
    return element("div", *figures, class_="pictures") if figures else None


def _figure(path, caption, most):
    content = path.read_bytes()
    if path.suffix == ".png" and len(content) > most:
        with Image.open(io.BytesIO(content)) as picture:
            source = jpeg_within(picture, most)
    else:
        source = data_uri(content, TYPES[path.suffix])
    # What can be seen stands in the caption; the same words again would be read twice.
    image = empty_element("img", src=source, alt=path.stem.replace("_", " "))
    return element("figure", image, element("figcaption", caption))


def jpeg_within(picture, most, largest=SIDES[0]):
    """Returns the largest JPEG of a picture that has at most a number of bytes, as a data URI.

    Args:
        picture: PIL image; it is not enlarged.
        most: bytes. If even the smallest has more, it is that one.
        largest: longest side in pixels.
    """
    picture, promising = picture.convert("RGB"), largest
    for side in SIDES:
        if side > promising and side != SIDES[-1]:
            continue
        content = jpeg(picture, side)
        if len(content) <= most:
            break
        # Bytes grow with the area, or less.
        promising = 1.1 * min(side, max(picture.size)) * math.sqrt(most / len(content))
    return data_uri(content, "image/jpeg")


def jpeg(picture, side):
    """Returns the bytes of a picture as a JPEG.

    Args:
        picture: PIL image in RGB; it is not enlarged.
        side: longest side in pixels.
    """
    small, file = picture.copy(), io.BytesIO()
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    small.save(file, "JPEG", quality=QUALITY)
    return file.getvalue()


def data_uri(content, kind):
    """Returns the address of an image that is its content.

    Args:
        content: bytes of the file.
        kind: media type.
    """
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"

"""Boxes around objects in photos: columns of tables, names of parts of photos, and crops.

A box is the left, top, right and bottom of a part of an upright photo, as people and browsers see it: in pixels, or as
fractions of the photo's width and height if no number is larger than 1.
"""

import functools
import io
import math
import re
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.checks import DAMAGED, ORIENTATION, as_decodable, decoded_size, open_heic, wrong_header
from tfdml.registry.arguments import FilePath

COLUMNS = ("x1", "y1", "x2", "y2")
EXPECTED = "Expected x1 < x2 and y1 < y2 in pixels, or as fractions from 0 to 1"
# Coordinates from detectors may exceed the photo by this number of pixels. They are clipped.
SPARE = 1
# Number of headers that are read at once.
THREADS = 16
NAME = re.compile(r"(.+)#xywh=(percent:)?([-\d.e,+]+)", re.DOTALL)


def has_boxes(header: Sequence[str], source: object) -> bool:
    """Returns whether a table has the four columns of a box. Raises a ValueError if it has only some of them."""
    missing = [name for name in COLUMNS if name not in header]
    for name in header:
        if name not in COLUMNS and name.lower() in missing:
            raise ValueError(f"{source} has a column {name}. For boxes, name it {name.lower()}.")
    if 0 < len(missing) < len(COLUMNS):
        raise ValueError(
            f"{source} has no column {missing[0]}. Expected all of {','.join(COLUMNS)} for boxes, or none of them."
        )
    return not missing


def box_of_row(row: Any, where: str) -> tuple[float, ...]:
    """Returns the box in a row of a table. `where` names the row in errors."""
    return checked_box([row[name] for name in COLUMNS], where)


def box_of_text(text: str, where: str) -> tuple[float, ...]:
    """Returns the box in a text such as `40,20,260,180`. `where` names the text in errors."""
    numbers = text.split(",")
    if len(numbers) != len(COLUMNS):
        raise BoxError(f"{where} must have four numbers, {','.join(COLUMNS)}. Received: {text:.100}.")
    return box_of_row(dict(zip(COLUMNS, numbers, strict=True)), where)


class BoxError(ValueError):
    """Error of a box that is not a part of its photo."""


def checked_box(numbers: Sequence[float], where: str = "") -> tuple[float, ...]:
    """Returns a box as a tuple of four floats. Raises a `BoxError` if it cannot be a part of any photo.

    Args:
        numbers: Left, top, right and bottom.
        where: What has the box, for errors.
    """
    expected = f"{where or 'box'} must have four numbers, {','.join(COLUMNS)}."
    try:
        found = tuple(map(float, numbers))
    except (TypeError, ValueError, OverflowError):
        raise BoxError(f"{expected} Received: {numbers!r:.100}.") from None
    if len(found) != len(COLUMNS):
        raise BoxError(f"{expected} Received: {len(found)} numbers.")
    shown = f"{where}{': the' if where else 'The'} box {', '.join(f'{each:g}' for each in found)}"
    if not all(map(math.isfinite, found)):
        raise BoxError(f"{shown} must have finite numbers.")
    left, top, right, bottom = found
    if not (left < right and top < bottom):
        raise BoxError(f"{shown} has no area. {EXPECTED}; x2 and y2 are corners and not a width and a height.")
    fractions = max(found) <= 1
    if min(found) < (0 if fractions else -SPARE):
        raise BoxError(f"{shown} is outside the image. {EXPECTED}.")
    if not fractions and (right - left < 1 or bottom - top < 1 or max(found) < 2):
        raise BoxError(f"{shown} has fractions above 1, or is smaller than a pixel. {EXPECTED}.")
    return found


def check_units(boxes: Sequence[tuple[float, ...]], source: object) -> None:
    """Raises a `BoxError` if some boxes of a table are in fractions and others in pixels."""
    fractions = [max(box) <= 1 for box in boxes]
    if any(fractions) and not all(fractions):
        one, other = boxes[fractions.index(True)], boxes[fractions.index(False)]
        raise BoxError(f"{source} has boxes in fractions, such as {one}, and in pixels, such as {other}. Use one unit.")


def in_pixels(box: Sequence[float], width: int, height: int) -> tuple[int, int, int, int]:
    """Returns a box in whole pixels of a photo, at least one. Raises a `BoxError` if it is not inside."""
    left, top, right, bottom = box
    near = 0
    if max(box) <= 1:
        # Rounding must not add a pixel.
        near = 1e-6
        left, top, right, bottom = left * width, top * height, right * width, bottom * height
    found = math.floor(left + near), math.floor(top + near), math.ceil(right - near), math.ceil(bottom - near)
    if min(found) < -SPARE or found[2] > width + SPARE or found[3] > height + SPARE:
        shown = ", ".join(f"{each:g}" for each in box)
        raise BoxError(f"the box {shown} is outside the image, which has {width} x {height} pixels")
    left, top = (min(max(each, 0), size - 1) for each, size in zip(found, (width, height), strict=False))
    return left, top, max(min(found[2], width), left + 1), max(min(found[3], height), top + 1)


def with_box(path: str, box: Sequence[float]) -> str:
    """Returns the name of a part of a photo, such as `shelf.jpg#xywh=10,20,100,50`, as media fragments are written.

    Boxes in pixels are rounded outward. Fractions are written in percent, such as `#xywh=percent:25,0,50,100`.
    """
    left, top, right, bottom = box
    if max(box) <= 1:
        numbers = [f"{100 * each:.6f}".rstrip("0").rstrip(".") for each in (left, top, right - left, bottom - top)]
        return f"{path}#xywh=percent:{','.join(numbers)}"
    left, top, right, bottom = math.floor(left), math.floor(top), math.ceil(right), math.ceil(bottom)
    return f"{path}#xywh={left},{top},{right - left},{bottom - top}"


def parted(name: str) -> tuple[str, tuple[float, ...] | None]:
    """Returns the path and the box in a name that `with_box` has made, or the name and `None`."""
    match = NAME.fullmatch(name)
    try:
        left, top, width, height = map(float, match[3].split(","))
        box = left, top, left + width, top + height
        # Rounding must not turn fractions into pixels.
        return match[1], checked_box([min(round(each / 100, 8), 1) for each in box] if match[2] else box)
    except (TypeError, ValueError, OverflowError):
        return name, None


def joined_names(words: Sequence[str]) -> list[str]:
    """Returns the names in a text that was split at commas, of which the boxes have three."""
    found = []
    for word in words:
        begun = re.search(r"#xywh=[-\w:.,+]*$", found[-1]) if found else None
        if begun and begun[0].count(",") < 3 and re.fullmatch(r"[-\d.e+]+", word):
            found[-1] += f",{word}"
        else:
            found.append(word)
    return found


TILES = re.compile(r"([1-9])x([1-9])(\+1)?")


def tile_boxes(spec: str) -> list[tuple[float, ...]]:
    """Returns the boxes of tiles: for `2x2+1`, two columns of two rows, followed by the whole image."""
    match = TILES.fullmatch(spec)
    if not match:
        raise ValueError(
            f"tiles must be columns and rows from 1 to 9, such as 2x2, or 2x2+1 with the whole image. Received: {spec}."
        )
    columns, rows = int(match[1]), int(match[2])
    boxes = [
        (column / columns, row / rows, (column + 1) / columns, (row + 1) / rows)
        for row in range(rows)
        for column in range(columns)
    ]
    return [*boxes, (0.0, 0.0, 1.0, 1.0)] if match[3] else boxes


def size_of(file: FilePath | bytes) -> tuple[int, int, int]:
    """Returns the width and height of an upright photo, and the EXIF orientation that decoders undo, from its header.

    Raises an OSError if the file cannot be read.
    """
    from PIL import Image

    open_heic()
    try:
        with Image.open(io.BytesIO(file) if isinstance(file, bytes) else file) as image:
            # PNG and WebP files count as upright.
            is_jpeg, (width, height) = image.format in ("JPEG", "MPO"), decoded_size(image)
            orientation = image.getexif().get(ORIENTATION, 1) if is_jpeg else 1
    except (*DAMAGED, Image.DecompressionBombError) as error:
        raise OSError(str(error)) from None
    orientation = orientation if orientation in range(1, 9) else 1
    return (height, width, orientation) if orientation >= 5 else (width, height, orientation)


def as_stored(box: Sequence[int], width: int, height: int, orientation: int) -> tuple[int, int, int, int]:
    """Returns a box `[4]` of an upright photo as a box of the stored image, to which `Split.boxes` refer."""
    left, top, right, bottom = box
    if orientation in (3, 4, 7, 8):
        top, bottom = height - bottom, height - top
    if orientation in (2, 3, 6, 7):
        left, right = width - right, width - left
    return (top, left, bottom, right) if orientation >= 5 else (left, top, right, bottom)


def split_boxes(paths: Sequence[str], boxes: Sequence[tuple[float, ...]], where: Any) -> np.ndarray:
    """Returns the boxes of photos, `[N, 4]` int32 in pixels of the stored images, as `Split` needs them.

    Args:
        paths: N paths. Each photo's header is read once.
        boxes: N boxes.
        where: Function from a row to its name in errors.
    """
    names = list(dict.fromkeys(paths))

    def read(path):
        try:
            return size_of(path)
        except OSError:
            # Other checks report missing and unreadable files.
            return None

    with ThreadPoolExecutor(THREADS) as threads:
        sizes = dict(zip(names, threads.map(read, names), strict=True))
    found = []
    for row, (path, box) in enumerate(zip(paths, boxes, strict=True)):
        if sizes[path] is None:
            found.append((0, 0, 1, 1))
            continue
        try:
            width, height, orientation = sizes[path]
            found.append(as_stored(in_pixels(box, width, height), width, height, orientation))
        except BoxError as error:
            raise BoxError(f"{where(row)}: {error}: {path}.") from None
    return np.array(found, np.int32).reshape(-1, 4)


def cropped(contents: bytes, box: Sequence[float]) -> bytes:
    """Returns the part of an image file inside a box as a PNG file.

    Raises a `BoxError` if the box is outside, and an OSError if the image cannot be read.
    """
    return _as_png(_crop(_pixels(contents), box))


# Photos of which several parts are read one after the other are decoded once. While a thread decodes one of them,
# others that need the same photo wait.
_LOCKS = [threading.Lock() for _ in range(THREADS)]
KEPT = 4


def cropped_file(path: str, box: Sequence[float]) -> bytes:
    """Returns the same as `cropped` for the file at a path."""
    about = Path(path).stat()
    with _LOCKS[hash(path) % THREADS]:
        pixels = _pixels_at(path, about.st_mtime_ns, about.st_size)
    return _as_png(_crop(pixels, box))


@functools.lru_cache(KEPT)
def _pixels_at(path, time, size):
    del time, size  # They distinguish versions of a file.
    return _pixels(Path(path).read_bytes())


def _pixels(contents):
    """Returns the upright pixels of an image file, decoded as for training."""
    # Imported here because tables are also read without TensorFlow.
    import tensorflow as tf

    from pipelines.images.decoding import decode, why_costly

    if wrong := wrong_header(io.BytesIO(contents)) or why_costly(contents):
        raise OSError(f"the image {wrong}")
    try:
        return decode(tf.constant(as_decodable(contents))).numpy()
    except tf.errors.OpError:
        raise OSError("the image cannot be decoded") from None


def _crop(pixels, box):
    left, top, right, bottom = in_pixels(box, pixels.shape[1], pixels.shape[0])
    return pixels[top:bottom, left:right]


def _as_png(pixels):
    from PIL import Image

    file = io.BytesIO()
    # The PNG exists only for a moment, so compression would cost more time than it saves.
    Image.fromarray(np.ascontiguousarray(pixels)).save(file, "PNG", compress_level=0)
    return file.getvalue()

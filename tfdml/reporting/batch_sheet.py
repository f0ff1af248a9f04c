"""Draws a batch of images on one sheet."""

import textwrap
from collections.abc import Mapping

import matplotlib
import numpy as np
from PIL import Image, ImageOps

from tfdml.registry.arguments import FilePath, Labels
from tfdml.reporting.sheet import FRAME, Sheet

# Sizes on the sheet, in pixels.
SMALLEST_SIDE, LARGEST_SIDE, MOST_COLUMNS = 96, 224, 16
GAP, BAR, MARGIN = 8, 5, 12
TEXT, TITLE = 12, 15
LABEL_LINES = 3
COLORS = [tuple(round(255 * part) for part in color) for color in matplotlib.colormaps["tab20"].colors]


def draw_batch(pictures: np.ndarray, labels: Labels, names: Mapping[int, str], path: FilePath, *, title: str) -> None:
    """Draws the images of a batch in order, with the name and a color bar of the class under each.

    If every class has the same number of consecutive images, no class is split between two rows.

    Args:
        pictures: `[B, H, W, 3]` uint8; those that are not square lie in the middle of one.
        labels: `[B]` class numbers.
        names: class number to name; others are written as numbers.
        path: the PNG to write.
        title: title of the sheet.
    """
    side = _shown_side(max(pictures.shape[1:3]))
    columns = _columns(labels)
    rows = -(-len(pictures) // columns)
    line, across = TEXT + 3, side + GAP
    width = max(2 * MARGIN + columns * across - GAP, 480)
    title = "\n".join(textwrap.wrap(title, int((width - 2 * MARGIN) / (0.6 * TITLE))))
    top = MARGIN + (TITLE + 5) * (title.count("\n") + 1) + GAP
    down = side + BAR + LABEL_LINES * line + GAP
    sheet = Sheet(width, top + rows * down + MARGIN - GAP)
    sheet.words(MARGIN, MARGIN, title, size=TITLE, spacing=5)
    colors = {label: COLORS[place % len(COLORS)] for place, label in enumerate(dict.fromkeys(labels.tolist()))}
    for place, (picture, label) in enumerate(zip(pictures, labels.tolist(), strict=True)):
        x, y = MARGIN + place % columns * across, top + place // columns * down
        # Enlarged images show single pixels.
        how = Image.Resampling.NEAREST if side > max(picture.shape[:2]) else Image.Resampling.LANCZOS
        pixels = np.asarray(ImageOps.pad(Image.fromarray(picture), (side, side), how, "white"))
        sheet.picture(x - FRAME, y - FRAME, pixels)
        sheet.bar(x, y + side, side, BAR - 1, colors[label])
        name = names.get(label, f"class {label}").replace("_", " ")
        sheet.words(x, y + side + BAR, name, size=TEXT, width=side, lines=LABEL_LINES, spacing=1)
    sheet.save(path)


def _shown_side(side):
    """Returns the longer side of an image on the sheet: small images are enlarged by an integer, large ones reduced."""
    if side < SMALLEST_SIDE:
        return side * -(-SMALLEST_SIDE // side)
    return min(side, LARGEST_SIDE)


def _columns(labels):
    """Returns the number of images in a row: about the number of rows, and whole classes if these are equal in size."""
    changes = np.flatnonzero(np.diff(labels)) + 1
    lengths = np.diff([0, *changes, len(labels)])
    of_class = int(lengths[0]) if np.all(lengths == lengths[0]) and lengths[0] <= MOST_COLUMNS else 1
    wanted = min(np.sqrt(1.5 * len(labels)), MOST_COLUMNS)
    return min(max(int(wanted) // of_class, 1) * of_class, len(labels))

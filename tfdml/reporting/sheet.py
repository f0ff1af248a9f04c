"""The parts that sheets of pictures have in common."""

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from tfdml.files.checked import vacated

FONT = Path(matplotlib.get_data_path(), "fonts/ttf/DejaVuSans.ttf")
BOLD = Path(matplotlib.get_data_path(), "fonts/ttf/DejaVuSans-Bold.ttf")
# Colors of frames, told apart without seeing red and green, too: one is much brighter.
RIGHT, WRONG = "#2ca25f", "#b2182b"
MUTED = "#555555"
FRAME = 4
# A function of a row and a side that returns the picture of the row, uint8 `[side, side, 3]`.
Thumbnail: TypeAlias = Callable[[int, int], np.ndarray]


class Sheet:
    """A white sheet on which pictures and words are placed.

    Args:
        width, height: in pixels.
    """

    def __init__(self, width, height):
        self.image = Image.new("RGB", (width, height), "white")
        self._draw = ImageDraw.Draw(self.image)

    def picture(self, left, top, pixels, frame=None):
        """Pastes a picture, uint8 `[h, w, 3]`, with its frame's outer corner at `(left, top)`.

        Args:
            left, top: where.
            pixels: the picture.
            frame: color of the frame; None for white.
        """
        height, width = pixels.shape[:2]
        self.bar(left, top, width + 2 * FRAME, height + 2 * FRAME, frame or "white")
        self.image.paste(Image.fromarray(pixels), (left + FRAME, top + FRAME))

    def words(self, left, top, text, *, size=12, width=None, lines=1, color="black", bold=False, spacing=2):
        """Writes words.

        Args:
            left, top: where.
            text: the words.
            size: of the font, in pixels.
            width: where lines are broken, in pixels; None: nowhere.
            lines: maximum number of lines; the rest is cut off.
            color: of the words.
            bold: whether they are bold.
            spacing: between lines, in pixels.
        """
        font = ImageFont.truetype(BOLD if bold else FONT, size)
        if width is not None:
            letters = max(int(width / font.getlength("n")), 1)
            text = "\n".join(textwrap.wrap(text, letters, max_lines=lines, placeholder="…"))
        self._draw.multiline_text((left, top), text, color, font, spacing=spacing)

    def bar(self, left, top, width, height, color):
        """Draws a rectangle in one color."""
        self._draw.rectangle((left, top, left + width - 1, top + height - 1), fill=color)

    def dot(self, left, top, size, color):
        """Draws a dot whose middle is at `(left, top)`."""
        self._draw.ellipse((left - size / 2, top - size / 2, left + size / 2, top + size / 2), fill=color)

    def line(self, top):
        """Draws a line across the sheet."""
        self._draw.line((0, top, self.image.width, top), fill="#cccccc")

    def save(self, path):
        """Writes the sheet as a PNG file."""
        self.image.save(vacated(path))

"""Draws queries and their neighbors as one image."""

from PIL import Image, ImageDraw, ImageOps

from pipelines.boxes import in_pixels, parted
from pipelines.checks import open_heic
from tfdml.files.checked import naming, open_file

# Sizes in pixels.
SIDE, MARGIN, TEXT = 128, 8, 28
# Number of characters of a label that fit below an image.
SHOWN = 20


def draw(queries, found, path):
    """Writes an image with one row per query: the query, then its neighbors with similarities and labels.

    Queries are paths, and `found` is the result of `Searcher.search` for them.
    """
    open_heic()
    columns = 1 + max(map(len, found))
    width, height = SIDE + MARGIN, SIDE + TEXT + MARGIN
    sheet = Image.new("RGB", (columns * width + MARGIN, len(queries) * height + MARGIN), "white")
    pen = ImageDraw.Draw(sheet)
    for row, (query, neighbors) in enumerate(zip(queries, found, strict=True)):
        tiles = [(query, "query", "")]
        tiles += [(each.path, f"{each.similarity:.3f}", each.label or "") for each in neighbors]
        for column, (file, *lines) in enumerate(tiles):
            left, top = MARGIN + column * width, MARGIN + row * height
            sheet.paste(_tile(file), (left, top))
            for number, line in enumerate(lines):
                text = line if len(line) <= SHOWN else f"{line[: SHOWN - 3].rstrip(' ,')}..."
                pen.text((left, top + SIDE + 2 + number * TEXT // 2), text, fill="black")
    with naming(path):
        sheet.save(path)


def _tile(file):
    """Returns the image in a square, or a gray square if the file no longer exists."""
    path, box = parted(str(file))
    try:
        with open_file(path) as content, Image.open(content) as image:
            if box is None:
                # Decode at a smaller size if the format supports it.
                image.draft("RGB", (2 * SIDE, 2 * SIDE))
            upright = ImageOps.exif_transpose(image).convert("RGB")
            upright = upright if box is None else upright.crop(in_pixels(box, *upright.size))
            return ImageOps.pad(upright, (SIDE, SIDE), color="white")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return Image.new("RGB", (SIDE, SIDE), "lightgray")

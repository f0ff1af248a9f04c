"""A page on which people confirm or correct proposed labels by keyboard, and download a table with all labels."""

from pathlib import Path

from PIL import Image

from pipelines.boxes import COLUMNS, parted
from tfdml.reporting.page import PAGES, jpeg_within
from tfdml.reporting.run_page import write_text

PAGE = "labels.html"
# Longest side and bytes of an image, and of the images next to it.
SIDE, BYTES, SMALL_SIDE, SMALL_BYTES = 384, 40_000, 144, 8_000


def write_labeling_page(out, title, names, labels, asked, image):
    """Writes the page into a folder and returns its path.

    `names` and `labels`, both `[N]`, become the columns `path` and `label` of the table; a label may be `None`. If all
    names are parts of photos, see `with_box`, the table also has the columns of their boxes. `asked` are tuples of a
    row, the label to propose (or `None`), a note, and rows of similar images. `image` is a function from a row to
    pixels, or `None` if the image cannot be read.
    """
    pictures = {}

    def picture(row, most, side):
        if (row, side) not in pictures:
            pixels = image(row)
            pictures[row, side] = None if pixels is None else jpeg_within(Image.fromarray(pixels), most, side)
        return pictures[row, side]

    shown = [
        {
            "row": row,
            "proposed": proposed or "",
            "note": note,
            "image": picture(row, BYTES, SIDE),
            "near": [{"label": labels[other], "image": picture(other, SMALL_BYTES, SMALL_SIDE)} for other in near],
        }
        for row, proposed, note, near in asked
    ]
    parts = list(map(parted, names))
    data = {"paths": names, "labels": labels, "asked": shown, "choices": sorted({*labels} - {None})}
    if all(box for _, box in parts):
        data |= {"columns": COLUMNS, "files": [file for file, _ in parts], "boxes": [box for _, box in parts]}
    path = Path(out, PAGE)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(PAGES.get_template("labels.html").render(title=title, data=data), path)
    return path

"""Draws the README's picture of the toycars dataset, with a row per design and its images as columns.

python docs/make_contact_sheet.py --out=docs/images/toycars.png
"""

import io
import pathlib

import numpy as np
from absl import app, flags
from PIL import Image, ImageOps

from pipelines.datasets.toycars import designs
from pipelines.datasets.toycars_drawing import render

FLAGS = flags.FLAGS
flags.DEFINE_string("out", "docs/images/toycars.png", "File of the picture.")
flags.DEFINE_integer("first", 72, "Class of the first design in the default dataset.", lower_bound=0, upper_bound=199)
flags.DEFINE_integer("rows", 8, "Number of designs.", lower_bound=1)
flags.DEFINE_integer("columns", 10, "Number of images per design.", lower_bound=1)
flags.DEFINE_integer("image_size", 48, "Side length of the images in the dataset, in pixels.", lower_bound=16)
flags.DEFINE_integer("zoom", 2, "Factor by which images are enlarged.", lower_bound=1)

GAP = 4


def contact_sheet(first, rows, columns, image_size, zoom):
    """Returns the sheet as an image, with the first images of classes in the default dataset."""
    side = image_size * zoom
    sheet = Image.new("RGB", (columns * (side + GAP) - GAP, rows * (side + GAP) - GAP), "white")
    for row, design in enumerate(designs(200, seed=0)[first : first + rows]):
        for column in range(columns):
            file = io.BytesIO(render(design, np.random.default_rng([0, first + row, column]), image_size))
            picture = Image.open(file).resize((side, side), Image.Resampling.NEAREST)
            sheet.paste(picture, (column * (side + GAP), row * (side + GAP)))
    return sheet


def main(_):
    out = pathlib.Path(FLAGS.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    sheet = contact_sheet(FLAGS.first, FLAGS.rows, FLAGS.columns, FLAGS.image_size, FLAGS.zoom)
    # The noise makes files large. Two bits less per color are not visible and save a third of the size.
    ImageOps.posterize(sheet, 6).save(out, optimize=True)
    print(f"Wrote {out}")


if __name__ == "__main__":
    app.run(main)

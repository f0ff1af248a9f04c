"""Draws the pictures of the README and of the docs, those of trained models from a complete run of one learner.

python -m docs.draw_pictures --run_dir=runs/quickstart
"""

import pathlib
import shutil
import tempfile
import time

from absl import app, flags
from PIL import Image

from docs import make_contact_sheet
from docs.browser import chromium, open_projector, what_is_missing

flags.DEFINE_string("run_dir", "runs/quickstart", "Folder of the run.")

IMAGES = pathlib.Path(__file__).parent / "images"
# Sheets of photos are written as JPEG, charts as SVG.
SHEETS, CHARTS = ("similarity", "map", "confused"), ("similarities", "recall", "training")
QUERIES, CONFUSED, QUALITY = 2, 3, 82
# Seconds in which the projector draws what it has loaded.
DRAWING = 10


def main(_):
    from tfdml.run import pictures
    from tfdml.run.experiment import trained
    from tfdml.run.run_directory import RunDirectory
    from tfdml.run.subject import Subject

    make_contact_sheet.main(None)
    run = RunDirectory(flags.FLAGS.run_dir)
    subject = Subject(*trained(run.path, "best"), run, run.complete_result())
    # A page has less room than a report.
    pictures.QUERIES, pictures.CLASSES = QUERIES, CONFUSED
    with tempfile.TemporaryDirectory() as folder:
        for name in (*SHEETS, *CHARTS, "neighbors"):
            (drawn,) = pictures.PICTURES[name].draw(subject, pathlib.Path(folder))
            if name in CHARTS:
                shutil.copy(drawn.with_suffix(".svg"), IMAGES / f"{name}.svg")
            else:
                write_photo(drawn, name)
        photograph_projector(subject, pathlib.Path(folder) / "projector.png")


def photograph_projector(subject, path):
    """Takes a picture of TensorBoard's projector with the embeddings of a run."""
    from tfdml.run.pictures import PICTURES

    missing = what_is_missing()
    if missing:
        raise FileNotFoundError(f"The projector cannot be photographed: {missing}.")
    PICTURES["projector"].draw(subject, path.parent)
    with chromium(webgl=True) as browser:
        open_projector(browser, subject.run.tensorboard)
        time.sleep(DRAWING)
        browser.save_screenshot(str(path))
    write_photo(path, "projector")


def write_photo(path, name):
    """Writes a picture as JPEG into the folder of the docs' images."""
    Image.open(path).convert("RGB").save(IMAGES / f"{name}.jpg", quality=QUALITY, optimize=True)
    print(f"Wrote {IMAGES / name}.jpg")


if __name__ == "__main__":
    app.run(main)

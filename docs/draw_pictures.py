"""Draws the pictures of the README and the docs. Pictures of trained models come from a complete run of one learner.

python -m docs.draw_pictures --run_dir=runs/quickstart
"""

import contextlib
import dataclasses
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
from absl import app, flags
from PIL import Image

from docs import make_contact_sheet
from docs.browser import chromium, open_projector, what_is_missing

flags.DEFINE_string("run_dir", "runs/quickstart", "Folder of the run.")

IMAGES = pathlib.Path(__file__).parent / "images"
# Sheets of photos are JPEG files, and charts are SVG files.
SHEETS, CHARTS = ("similarity", "map", "confused"), ("similarities", "recall", "training")
QUERIES, CONFUSED, QUALITY = 2, 3, 82
# The picture of before and after: queries, neighbors of each, sizes in pixels, and the seed of the random queries. With
# this seed, the queries have the same share of right neighbors as all test images have.
QUERIES_SHOWN, SHOWN, SIDE, GAP, HEAD, SEED = 6, 5, 72, 6, 36, 7
# The search page: the row of the query, the port of the service, and the size of the window.
QUERY, PORT, PAGE = 42, 8123, (1100, 1010)
# Seconds for the projector to draw its data, and for a page to open a query.
DRAWING, OPENING = 10, 2


def main(_):
    from tfdml import registry
    from tfdml.reporting.subject import Subject
    from tfdml.run.directory.run_directory import RunDirectory
    from tfdml.run.experiment.experiment import trained

    make_contact_sheet.main(None)
    run = RunDirectory(flags.FLAGS.run_dir)
    subject = Subject(*trained(run.path, "best"), run, run.complete_result())
    missing = what_is_missing()
    if missing:
        raise FileNotFoundError(f"Screenshots of pages need a browser: {missing}.")
    with tempfile.TemporaryDirectory() as folder:
        for name in (*SHEETS, *CHARTS, "neighbors"):
            # A page of the docs has less space than a report.
            picture = registry.create("picture", name, queries=QUERIES, classes=CONFUSED)
            (drawn,) = picture.draw(subject, pathlib.Path(folder))
            if name in CHARTS:
                shutil.copy(drawn.with_suffix(".svg"), IMAGES / f"{name}.svg")
            else:
                write_photo(drawn, name)
        draw_before_and_after(subject, pathlib.Path(folder) / "before_and_after.png")
        photograph_report(subject, pathlib.Path(folder))
        photograph_projector(subject, pathlib.Path(folder) / "projector.png")
        photograph_search(subject, pathlib.Path(folder))


def draw_before_and_after(subject, path):
    """Draws random queries, each with its neighbors by the pretrained features and by the trained model."""
    from tfdml.methods import Features
    from tfdml.reporting.sheets import FRAME, RIGHT, WRONG, Sheet

    backbone = type(subject.model.backbone).from_config(subject.model.backbone.get_config())
    backbone.load_weights(backbone.shipped_weights["toycars"])
    before = dataclasses.replace(subject, model=Features(backbone))
    cell = SIDE + 2 * FRAME + GAP
    lefts = [cell + 3 * GAP, (1 + SHOWN) * cell + 6 * GAP]
    sheet = Sheet(lefts[1] + SHOWN * cell, HEAD + QUERIES_SHOWN * cell)
    for left, title in zip([0, *lefts], ["Query", "Nearest before training", "Nearest after training"], strict=True):
        sheet.words(left + FRAME, 8, title, size=15, bold=True)
    # Both models are asked for the same queries.
    chosen = np.random.default_rng(SEED).choice(subject.retrieved.queries, QUERIES_SHOWN, replace=False)
    for number, query in enumerate(chosen):
        top = HEAD + number * cell
        sheet.picture(0, top, subject.thumbnail(query, side=SIDE))
        for left, each in zip(lefts, (before, subject), strict=True):
            place = np.flatnonzero(each.retrieved.queries == query)[0]
            found = zip(each.retrieved.rows[place, :SHOWN], each.retrieved.right[place, :SHOWN], strict=True)
            for column, (row, right) in enumerate(found):
                picture = subject.thumbnail(row, side=SIDE)
                sheet.picture(left + column * cell, top, picture, RIGHT if right else WRONG)
    sheet.save(path)
    write_photo(path, "before_and_after")


def photograph_report(subject, folder):
    """Takes screenshots of the queries of the report, and of an opened query with its explanation."""
    from tfdml.reporting.run_page import write_page
    from tfdml.run.directory.run_record import Record

    page = folder / "index.html"
    write_page(Record.of(subject.run.path), subject, {}, page)
    with chromium() as browser:
        browser.get(page.as_uri())
        # Random queries include right and wrong ones.
        browser.find_element("css selector", "select[name=kind] option[value=Random]").click()
        browser.execute_script("document.querySelector('#choices').scrollIntoView()")
        browser.save_screenshot(str(folder / "report.png"))
        queries = browser.find_elements("css selector", "#queries button")
        next(query for query in queries if query.is_displayed()).click()
        browser.find_element("css selector", ".why").click()
        time.sleep(OPENING)
        browser.save_screenshot(str(folder / "dialog.png"))
    for name in ("report", "dialog"):
        write_photo(folder / f"{name}.png", name)


def photograph_projector(subject, path):
    """Takes a screenshot of TensorBoard's projector with the embeddings of a run."""
    from tfdml import registry

    registry.create("picture", "projector").draw(subject, path.parent)
    with chromium(webgl=True) as browser:
        open_projector(browser, subject.run.tensorboard)
        time.sleep(DRAWING)
        browser.save_screenshot(str(path))
    write_photo(path, "projector")


def photograph_search(subject, folder):
    """Takes a picture of the search page with the test images of a run."""
    from selenium.common.exceptions import WebDriverException

    from tfdml.serving.exports import export_run
    from tfdml.serving.image_list import ImageList
    from tfdml.serving.index.build import index_images

    query = folder / "query.jpg"
    query.write_bytes(subject.test.images[QUERY])
    export_run(subject.run.path, "best", folder / "exported")
    index_images(folder / "index", ImageList.of("toycars"), model=folder / "exported")
    command = [sys.executable, "-m", "tfdml.serve", f"--index={folder / 'index'}", f"--port={PORT}"]
    with subprocess.Popen(command) as service, chromium() as browser:
        browser.set_window_size(*PAGE)
        try:
            while service.poll() is None and "Similar images" not in browser.title:
                time.sleep(1)
                with contextlib.suppress(WebDriverException):
                    browser.get(f"http://127.0.0.1:{PORT}")
            browser.find_element("css selector", "#file").send_keys(str(query))
            while not browser.find_elements("css selector", "#found img"):
                time.sleep(1)
            time.sleep(OPENING)
            browser.save_screenshot(str(folder / "search_page.png"))
        finally:
            service.terminate()
    write_photo(folder / "search_page.png", "search_page")


def write_photo(path, name):
    """Writes a picture as a JPEG file into the image folder of the docs."""
    Image.open(path).convert("RGB").save(IMAGES / f"{name}.jpg", quality=QUALITY, optimize=True)
    print(f"Wrote {IMAGES / name}.jpg")


if __name__ == "__main__":
    app.run(main)

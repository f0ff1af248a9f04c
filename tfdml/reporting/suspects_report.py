"""Reports images with labels that models doubt: a list, and a page to check them."""

import os
from pathlib import Path, PurePath

import numpy as np

from pipelines.dataset import write_list
from pipelines.images.decoding import image_of
from tfdml.evaluation.queries import RetrievalTask, Retrieved
from tfdml.evaluation.suspicion import Judgement, Suspects
from tfdml.reporting import page, tables
from tfdml.reporting.gallery import CLOSENESS
from tfdml.reporting.labeling_page import write_labeling_page
from tfdml.reporting.page import html
from tfdml.reporting.run_page import write_text

# Largest number of suspects in the table, and on the page that corrects labels, and of neighbors that both show.
LISTED, ASKED, NEIGHBORS = 1000, 200, 6
LIST, PAGE = "suspects.jsonl", "index.html"
HEAD = ["Image", "Class", "Nearer to", "Margin", "Models"]


def suspects_of(images, nearest, margin, share):
    """Returns the `Suspects` among `JudgedImages`: images with labels that most models doubt.

    The closeness of an image to a class is its mean similarity to the `nearest` images of the class. `margin` is the
    smallest margin, in standard deviations of the margins of all images, and `share` the largest fraction of the images
    that are suspects.
    """
    judgements = [
        Judgement.of(
            judge.embeddings, images.labels[judge.rows], rows=judge.rows, nearest=nearest, distance=judge.distance
        )
        for judge in images.judges
    ]
    return Suspects.of(judgements, len(images.labels), margin, share)


def write_suspects(images, suspects, out):
    """Writes a list of suspects to a folder, and two pages if there are suspects and their images are available.

    Returns the paths of the files by name: `list`, and possibly `page`, and `labels` to correct labels by keyboard.
    """
    files = {"list": Path(out, LIST)}
    files["list"].parent.mkdir(parents=True, exist_ok=True)
    listed = [
        (name, f"nearer to {other} than to {own}, by a margin of {margin}")
        for name, own, other, margin, _ in rows_of(images, suspects)
    ]
    write_list(files["list"], listed)
    if len(suspects.rows) and images.split is not None:
        files["page"] = Path(out, PAGE)
        neighbors = _neighbors(images, suspects.rows)
        write_text(_page(images, suspects, neighbors), files["page"])
        # Boxes are stored for the decoder, so the table would lose them.
        if not images.split.encoded and images.split.boxes is None:
            files["labels"] = _labeling_page(images, suspects, neighbors, out)
    return files


def _labeling_page(images, suspects, neighbors, out):
    """Writes a page that proposes the class that each suspect is nearer to. Returns its path."""
    rows = suspects.rows[:ASKED].tolist()
    asked = [
        (
            row,
            images.named(suspects.others[at]),
            f"now {images.named(images.labels[row])}",
            [other for other, *_ in neighbors.get(row, [])],
        )
        for at, row in enumerate(rows)
    ]
    paths, labels = list(map(os.path.abspath, images.split.images)), list(map(images.named, images.labels))
    title = f"{len(rows):,} labels to check"
    return write_labeling_page(out, title, paths, labels, asked, lambda row: image_of(images.split, row).numpy())


def rows_of(images, suspects):
    """Returns the table rows for the `Suspects` of `JudgedImages`, with the columns `HEAD`."""
    return [
        [
            images.names[row],
            images.named(images.labels[row]),
            images.named(suspects.others[at]),
            f"{suspects.margins[at]:.2f}",
            f"{suspects.votes[at]} of {suspects.judges[at]}",
        ]
        for at, row in enumerate(suspects.rows)
    ]


def _page(images, suspects, neighbors):
    sample = [image_of(images.split, int(row)).numpy() for row in suspects.rows[:NEIGHBORS]]
    shown = suspects.rows[: tables.queries_within(sample, 1 + NEIGHBORS)]
    data = tables.gallery_data(
        {"Suspects": shown.tolist()},
        {"": neighbors},
        CLOSENESS[images.judges[0].distance],
        lambda row: image_of(images.split, row).numpy(),
        lambda row: ("/".join(PurePath(images.names[row]).parts[-2:]), images.named(images.labels[row])),
        notes={int(row): f"nearer to {images.named(suspects.others[at])}" for at, row in enumerate(shown)},
    )
    listed = rows_of(images, suspects)[:LISTED]
    caption = (
        f"The {len(listed):,} most doubtful of {len(suspects.rows):,} images. Margins are in standard deviations, and "
        "“Models” is the number of models that doubt the label."
    )
    sections = {
        "Suspects and neighbors": tables.gallery(data),
        "All suspects": html.table(HEAD, listed, caption, "numbers"),
    }
    title = f"{len(suspects.rows):,} images that are nearer to another class than to their own"
    state = {"Check these images before you remove them: some have the right label but look like another class.": False}
    return page.document(title, state, sections, {"gallery": data})


def _neighbors(images, rows):
    """Returns the row of each suspect to a list of `(row, closeness, right)` of its neighbors, by one model."""
    found = {}
    for judge in images.judges:
        asked = np.isin(judge.rows, rows) & ~np.isin(judge.rows, list(found))
        if not asked.any():
            continue
        task = RetrievalTask.of(images.labels[judge.rows], queries=asked)
        options = {"distance": judge.distance, "most": len(judge.rows)}
        retrieved = Retrieved.of(judge.embeddings, task, NEIGHBORS, **options)
        near = tables.neighbors_of(retrieved, np.flatnonzero(asked), judge.embeddings, judge.distance)
        for query, others in near.items():
            found[int(judge.rows[query])] = [(int(judge.rows[row]), close, right) for row, close, right in others]
    return found

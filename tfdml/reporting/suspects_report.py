"""Reports images whose labels models doubt: a list, and a page to look at them."""

import json
from pathlib import Path, PurePath

import numpy as np

from pipelines.datasets.ignoring import write_list
from pipelines.images.stored_images import image_of
from tfdml.evaluation.retrieved import Retrieved
from tfdml.evaluation.search import RetrievalTask
from tfdml.evaluation.suspicion import Judgement, Suspects
from tfdml.reporting import page
from tfdml.reporting.gallery import CLOSENESS
from tfdml.reporting.page.elements import table
from tfdml.reporting.run_page import write_text
from tfdml.run.experiment.judged_images import JudgedImages

# Suspects that are printed, those of a table, and neighbors that are shown of each.
PRINTED, LISTED, NEIGHBORS = 20, 1000, 6
LIST, PAGE = "suspects.jsonl", "index.html"
HEAD = ["Image", "Class", "Nearer to", "Margin", "Models"]


def report_suspects(given, changes):
    """Judges labels, prints those that are doubted and one line of JSON, and writes a list and a page.

    Args:
        given: flags of `python -m tfdml.suspects`.
        changes: settings to use instead of the runs', name to value.
    """
    if given.run_dirs:
        images = JudgedImages.of_runs(given.run_dirs, given.split, given.which, changes)
    else:
        about = {"data_dir": given.data_dir, "part": given.split, "distance": given.distance}
        images = JudgedImages.of_files(given.embeddings, given.labels, **about)
    judgements = [
        Judgement.of(
            judge.embeddings, images.labels[judge.rows], rows=judge.rows, nearest=given.nearest, distance=judge.distance
        )
        for judge in images.judges
    ]
    found = Suspects.of(judgements, len(images.labels), given.margin, given.share)
    out = Path(given.out)
    out.mkdir(parents=True, exist_ok=True)
    write_list(out / LIST, [(images.names[row], _reason(images, found, at)) for at, row in enumerate(found.rows)])
    print(_told(images, found))
    about = {"images": len(images.labels), "doubted": found.doubted, "suspects": len(found.rows)}
    about |= {"unjudged": found.unjudged, "list": str(out / LIST)}
    if len(found.rows) and images.split is not None:
        write_text(_page(images, found), out / PAGE)
        about["page"] = str(out / PAGE)
    print(json.dumps(about))


def _reason(images, found, at):
    own, other = images.named(images.labels[found.rows[at]]), images.named(found.others[at])
    return f"nearer to {other} than to {own}, by a margin of {found.margins[at]:.2f}"


def _rows(images, found):
    """Returns the cells of the suspects: name, class, the one that it is nearer to, margin and models."""
    return [
        [
            images.names[row],
            images.named(images.labels[row]),
            images.named(found.others[at]),
            f"{found.margins[at]:.2f}",
            f"{found.votes[at]} of {found.judges[at]}",
        ]
        for at, row in enumerate(found.rows)
    ]


def _told(images, found):
    lines = [HEAD, *_rows(images, found)[:PRINTED]]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rows = ["  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    more = [f"and {len(found.rows) - PRINTED:,} more"] if len(found.rows) > PRINTED else []
    judged = sum(len(judge.rows) for judge in images.judges)
    alone = f" {found.unjudged:,} are alone in their class, and are not judged." if found.unjudged else ""
    left = f" Listed are the {len(found.rows):,} most doubtful." if found.doubted > len(found.rows) else ""
    count = f"{found.doubted:,} images are nearer to another class than to their own, by {judged:,} judgements of "
    count += f"{len(images.judges):,} models on {len(images.labels):,} images.{alone}{left}"
    return "\n".join([*(rows if len(found.rows) else []), *more, count])


def _page(images, found):
    neighbors = _neighbors(images, found.rows)
    sample = [image_of(images.split, int(row)).numpy() for row in found.rows[:NEIGHBORS]]
    shown = found.rows[: page.queries_within(sample, 1 + NEIGHBORS)]
    data = page.gallery_data(
        {"Suspects": shown.tolist()},
        {"": neighbors},
        CLOSENESS[images.judges[0].distance],
        lambda row: image_of(images.split, row).numpy(),
        lambda row: ("/".join(PurePath(images.names[row]).parts[-2:]), images.named(images.labels[row])),
        notes={int(row): f"nearer to {images.named(other)}" for row, other in zip(shown, found.others, strict=False)},
    )
    listed = _rows(images, found)[:LISTED]
    caption = f"The {len(listed):,} most doubtful of {len(found.rows):,}"
    sections = {
        "Suspects and neighbors": page.gallery(data),
        "All suspects": table(HEAD, listed, caption, class_="numbers"),
    }
    title = f"{len(found.rows):,} images that are nearer to another class than to their own"
    state = {"Look at them before you leave them out: some have the right label, and look like another class.": False}
    return page.document(title, state, sections, {"gallery": data})


def _neighbors(images, rows):
    """Returns row of a suspect to a list of `(row, closeness, right)`: its neighbors, by a model that judges it."""
    found = {}
    for judge in images.judges:
        asked = np.isin(judge.rows, rows) & ~np.isin(judge.rows, list(found))
        if not asked.any():
            continue
        task = RetrievalTask.of(images.labels[judge.rows], queries=asked)
        options = {"distance": judge.distance, "most": len(judge.rows)}
        retrieved = Retrieved.of(judge.embeddings, task, NEIGHBORS, **options)
        near = page.neighbors_of(retrieved, np.flatnonzero(asked), judge.embeddings, judge.distance)
        for query, others in near.items():
            found[int(judge.rows[query])] = [(int(judge.rows[row]), close, right) for row, close, right in others]
    return found

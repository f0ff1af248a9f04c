"""Searches an index as `python -m tfdml.search` does, and prints what is found as a table or as JSON."""

import json
import math
from dataclasses import asdict
from pathlib import Path

from absl import logging
from PIL import Image

from tfdml.serving.index.adaptive_cut import kept
from tfdml.serving.index.contact_sheet import draw
from tfdml.serving.index.duplicates import duplicate_groups, duplicates
from tfdml.serving.index.found import Found
from tfdml.serving.index.labeling import label_folder
from tfdml.serving.index.threshold import NONE, Threshold
from tfdml.serving.index.threshold_check import difference

# Smallest similarity of duplicates that none is said of.
DUPLICATES = 0.95


def check_picture(path):
    """Raises a ValueError if a picture cannot be written to a path because of its ending; empty: there is none."""
    # Pillow reads some formats that it does not write.
    if path and Image.registered_extensions().get(Path(path).suffix.lower()) not in Image.SAVE:
        raise ValueError(f"--picture={path} does not end as an image file does, such as found.png.")


def print_neighbors(searcher, queries, given):
    """Prints the neighbors of images, and draws them where that is asked for.

    A threshold that is given leaves out what is less similar, a fitted one marks it.

    Args:
        searcher: `Searcher`.
        queries: list of paths.
        given: flags `k`, `where`, `threshold`, `adaptive`, `picture` and `format`.
    """
    threshold = _threshold(searcher, given)
    nearest = _nearest(searcher, queries, given)
    marked = threshold.fitted is not None
    found = [[each for each in some if marked or threshold.accepts(each.similarity)] for some in nearest]
    if given.picture:
        draw(queries, found, given.picture)
    if given.format == "json":
        about = {"threshold": dict(threshold.fitted)} if marked else {}
        rows = [
            (query, [_in_json(each, threshold) for each in some]) for query, some in zip(queries, found, strict=True)
        ]
        print(json.dumps([{"query": query, "neighbors": neighbors, **about} for query, neighbors in rows]))
        return
    if given.where:
        how = "each query is compared with all of them" if nearest.exact else "the search is approximate"
        print(f"{nearest.matching:,} of {len(searcher):,} images match; {how}.")
    for query, neighbors, all_of_them in zip(queries, found, nearest, strict=True):
        print(query)
        _print_rows([_row(each, threshold) for each in neighbors])
        if all_of_them and not neighbors:
            print(f"  none from --threshold={threshold.value:g} on; the nearest has {all_of_them[0].similarity:.4f}")


def _threshold(searcher, given):
    """Returns the `Threshold` of a command, and says where it comes from if none was given."""
    found = Threshold.of(searcher, given.threshold)
    if found.fitted is not None and given.format != "json":
        print(found.in_words(len(searcher)))
    if told := difference(searcher, found):
        logging.warning(told)
    return found


def _nearest(searcher, queries, given):
    """Returns `Found`, each list cut where the similarities fall most, if that is asked for."""
    if not given.adaptive:
        return searcher.search(queries, given.k, given.where or None)
    found, metric = searcher.search(queries, given.k + 1, given.where or None), searcher.manifest["metric"]
    lists = [each[: min(given.k, kept([neighbor.similarity for neighbor in each], metric))] for each in found]
    return Found(lists, found.matching, found.exact)


def _in_json(neighbor, threshold):
    accepted = {} if threshold.fitted is None else {"accepted": threshold.accepts(neighbor.similarity)}
    return {**asdict(neighbor), **accepted}


def _row(neighbor, threshold):
    mark = [] if threshold.fitted is None else ["accepted" if threshold.accepts(neighbor.similarity) else "below"]
    return (f"{neighbor.similarity:.4f}", *mark, neighbor.label or "", neighbor.path)


def print_duplicates(searcher, given):
    """Prints the pairs of near-duplicates in an index.

    A threshold that was fitted says which images are of one class, and not which are nearly the same.

    Args:
        searcher: `Searcher`.
        given: flags `threshold`, `groups` and `format`.
    """
    told = given.threshold not in ("", NONE)
    threshold = Threshold.of(searcher, given.threshold).value if told else DUPLICATES
    if given.groups:
        _print_groups(duplicate_groups(searcher, threshold), given.format)
        return
    pairs = duplicates(searcher, threshold)
    if given.format == "json":
        print(json.dumps([{"similarity": one.similarity, "paths": [one.path, other.path]} for one, other in pairs]))
        return
    _print_rows([(f"{one.similarity:.4f}", one.path, other.path) for one, other in pairs])
    print(f"{len(pairs):,} pairs")


def _print_groups(groups, form):
    if form == "json":
        print(json.dumps([asdict(group) for group in groups]))
        return
    for group in groups:
        print(group.representative.path)
        _print_rows([(f"{each.similarity:.4f}", each.path) for each in group.others])
    print(f"{len(groups):,} groups of {sum(1 + len(group.others) for group in groups):,} images")


def print_labels(searcher, given):
    """Prints the labels of the images of a folder, by their nearest neighbors.

    Args:
        searcher: `Searcher`.
        given: flags `label`, `k`, `threshold`, `validation`, `precision` and `format`.
    """
    threshold = Threshold() if given.validation else _threshold(searcher, given)
    if not given.validation and threshold.value is None and given.threshold != NONE:
        raise ValueError(
            "--label needs --threshold, or --validation, a folder of images with labels, or a model whose threshold "
            "python -m tfdml.threshold has fitted."
        )
    least = -math.inf if threshold.value is None else threshold.value
    calibration, found = label_folder(
        searcher,
        given.label,
        given.k,
        None if given.validation else least,
        validation=given.validation,
        precision=given.precision,
    )
    if given.format == "json":
        about = {"calibration": None if calibration is None else asdict(calibration)}
        about |= {} if threshold.fitted is None else {"threshold": dict(threshold.fitted)}
        print(json.dumps({**about, "images": [each.in_json() for each in found]}))
        return
    if calibration:
        if calibration.indexed:
            print(
                f"{calibration.indexed:,} of {calibration.images:,} validation images are in the index, and are not "
                "their own neighbors here. Better leave them out of the index: a threshold is for images that it lacks."
            )
        print(
            f"Threshold {calibration.threshold:.4f}: {calibration.precision:.1%} of the labels are right, and "
            f"{calibration.labeled:.1%} of {calibration.images:,} validation images have one."
        )
    _print_rows([(_shown(each.similarity), each.label or "unknown", each.path) for each in found])


def _shown(similarity):
    return "unreadable" if similarity is None else f"{similarity:.4f}"


def _print_rows(rows):
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  " + "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())

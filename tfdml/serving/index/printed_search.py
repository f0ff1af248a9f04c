"""Searches an index as `python -m tfdml.search` does, and prints what is found as a table or as JSON."""

import json
import math
from dataclasses import asdict

from tfdml.serving.index.contact_sheet import draw
from tfdml.serving.index.duplicates import duplicate_groups, duplicates
from tfdml.serving.index.labeling import label_folder

# Smallest similarity of duplicates that none is said of.
DUPLICATES = 0.95


def check_threshold(threshold, metric):
    """Raises a ValueError if no similarity of an index is as large.

    Args:
        threshold: smallest similarity; None: any.
        metric: `cosine` or `euclidean`.
    """
    most = {"cosine": 1, "euclidean": 0}[metric]
    if threshold is not None and not threshold <= most:
        kind = {"cosine": "a cosine", "euclidean": "minus a distance"}[metric]
        raise ValueError(f"--threshold={threshold:g}: the similarity is {kind}, which is at most {most}.")


def print_neighbors(searcher, queries, given):
    """Prints the neighbors of images, and draws them where that is asked for.

    Args:
        searcher: `Searcher`.
        queries: list of paths.
        given: flags `k`, `where`, `threshold`, `picture` and `format`.
    """
    threshold = -math.inf if given.threshold is None else given.threshold
    nearest = searcher.search(queries, given.k, given.where or None)
    found = [[each for each in some if each.similarity >= threshold] for some in nearest]
    if given.picture:
        draw(queries, found, given.picture)
    if given.format == "json":
        rows = zip(queries, found, strict=True)
        print(json.dumps([{"query": query, "neighbors": [asdict(each) for each in some]} for query, some in rows]))
        return
    if given.where:
        how = "each query is compared with all of them" if nearest.exact else "the search is approximate"
        print(f"{nearest.matching:,} of {len(searcher):,} images match; {how}.")
    for query, neighbors, all_of_them in zip(queries, found, nearest, strict=True):
        print(query)
        _print_rows([(f"{each.similarity:.4f}", each.label or "", each.path) for each in neighbors])
        if all_of_them and not neighbors:
            print(f"  none from --threshold={threshold:g} on; the nearest has {all_of_them[0].similarity:.4f}")


def print_duplicates(searcher, given):
    """Prints the pairs of near-duplicates in an index.

    Args:
        searcher: `Searcher`.
        given: flags `threshold`, `groups` and `format`.
    """
    threshold = DUPLICATES if given.threshold is None else given.threshold
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
    calibration, found = label_folder(
        searcher, given.label, given.k, given.threshold, validation=given.validation, precision=given.precision
    )
    if given.format == "json":
        about = None if calibration is None else asdict(calibration)
        print(json.dumps({"calibration": about, "images": [each.in_json() for each in found]}))
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

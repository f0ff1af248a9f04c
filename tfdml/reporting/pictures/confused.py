"""Draws the classes that are most often taken for each other."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tfdml.evaluation.queries import Retrieved
from tfdml.registry import Count, register
from tfdml.registry.arguments import FilePath, Labels
from tfdml.reporting.picture import Picture
from tfdml.reporting.sheet import FRAME, MUTED, WRONG, Sheet, Thumbnail

# Sizes on the sheet, in pixels.
SIDE, GAP, HEAD, MARGIN = 72, 6, 40, 10
CELL = SIDE + 2 * FRAME + GAP
WORDS, NUMBER = 170, 90
# Queries that are shown of each pair of classes.
SHOWN = 4


@register("picture", "confused")
class Confused(Picture):
    """Classes that are most often taken for each other.

    Args:
        classes: number of pairs of classes.
    """

    classes: Count = 8
    place = 20

    def draw(self, subject, folder):
        path = folder / "confused.png"
        found = most_confused(subject.retrieved, subject.test.labels, self.classes)
        return [path] if draw_confused(found, subject.class_names, subject.thumbnail, path) else []


class Confusion(NamedTuple):
    """Queries of one class whose nearest neighbor is of another one.

    Args:
        label, taken_for: the two class numbers.
        share: which fraction of the queries of the class these are.
        pairs: rows of these queries and of their nearest neighbors, `[n, 2]`.
    """

    label: int
    taken_for: int
    share: float
    pairs: np.ndarray


def most_confused(retrieved: Retrieved, labels: Labels, count: int) -> list[Confusion]:
    """Returns the `Confusion`s with the most queries, at most `count`, those with the most first.

    Args:
        retrieved: `tfdml.evaluation.queries.Retrieved`; only its nearest neighbors count.
        labels: `[N]` class numbers.
        count: how many.
    """
    wrong = (retrieved.rows[:, 0] >= 0) & ~retrieved.right[:, 0]
    pairs = np.stack([retrieved.queries[wrong], retrieved.rows[wrong, 0]], axis=1)
    kinds, of_kind, sizes = np.unique(labels[pairs], axis=0, return_inverse=True, return_counts=True)
    found = []
    for kind in np.argsort(-sizes, kind="stable")[:count]:
        label, taken_for = kinds[kind].tolist()
        share = sizes[kind] / np.sum(labels[retrieved.queries] == label)
        found.append(Confusion(label, taken_for, float(share), pairs[of_kind.ravel() == kind]))
    return found


def draw_confused(
    confusions: Sequence[Confusion], names: Mapping[int, str], thumbnail: Thumbnail, path: FilePath
) -> int:
    """Draws a table: a class, the one that it is taken for, how often, and queries above their nearest neighbors.

    Args:
        confusions: list of `Confusion`; of none, nothing is written.
        names: class number to name; others are written as numbers.
        thumbnail: function of a row and `side` that returns its picture, uint8 `[side, side, 3]`.
        path: the PNG to write.

    Returns:
        The number of rows of the table.
    """
    if not confusions:
        return 0
    height = 2 * CELL + 2 * GAP
    sheet = Sheet(2 * WORDS + NUMBER + SHOWN * CELL + MARGIN, HEAD + len(confusions) * height)
    titles = ("class", "taken for", "queries", "queries, above their nearest neighbors")
    lefts = (MARGIN, WORDS, 2 * WORDS, 2 * WORDS + NUMBER + FRAME)
    for left, title in zip(lefts, titles, strict=True):
        sheet.words(left, 12, title, bold=True)
    for number, each in enumerate(confusions):
        top = HEAD + number * height
        sheet.line(top - GAP)
        for left, label in zip(lefts, (each.label, each.taken_for), strict=False):
            name = names.get(label, f"class {label}")
            sheet.words(left, top + FRAME, name, size=11, width=WORDS - 2 * MARGIN, lines=9)
        sheet.words(lefts[2], top + FRAME, f"{len(each.pairs)} ({each.share:.0%})")
        sheet.words(lefts[2], top + CELL + FRAME, "nearest", color=MUTED, size=11)
        for place, (query, neighbor) in enumerate(each.pairs[:SHOWN]):
            left = 2 * WORDS + NUMBER + place * CELL
            sheet.picture(left, top, thumbnail(query, side=SIDE))
            sheet.picture(left, top + CELL, thumbnail(neighbor, side=SIDE), WRONG)
    sheet.save(path)
    return len(confusions)

"""Draws queries with their nearest neighbors (Figures 3 to 6 of Divide and Conquer)."""

from collections.abc import Mapping

import numpy as np

from tfdml.evaluation.queries import Retrieved
from tfdml.registry import Count, register
from tfdml.registry.arguments import FilePath, Labels
from tfdml.reporting.picture import Picture
from tfdml.reporting.sheet import FRAME, MUTED, RIGHT, WRONG, Sheet, Thumbnail

# Sizes on the sheet, in pixels.
SIDE, GAP, ASIDE, HEAD, MARGIN = 88, 6, 24, 34, 10
CELL = SIDE + 2 * FRAME + GAP
WORDS = 190


@register("picture", "neighbors")
class Neighbors(Picture):
    """Queries and their nearest neighbors: those of the class in green, others in red.

    Args:
        queries: number of queries of each kind.
    """

    queries: Count = 5
    place = 10
    on_page = False

    def draw(self, subject, folder):
        path, labels = folder / "neighbors.png", subject.test.labels
        chosen = chosen_queries(subject.retrieved, labels, self.queries, subject.experiment.settings.run.seed)
        titled = {f"{kind.capitalize()} queries": places for kind, places in chosen.items()}
        draw_neighbors(subject.retrieved, titled, labels, subject.class_names, subject.thumbnail, path)
        return [path]


def chosen_queries(retrieved: Retrieved, labels: Labels, count: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Returns kind to places in `retrieved.queries`: `best`, `worst` and `random` ones.

    The best queries have the most right neighbors, the worst have their first right neighbor farthest behind. Of each
    kind there is one query of each class before any class has another. Queries without a right image in the gallery are
    left out.

    Args:
        retrieved: `tfdml.evaluation.queries.Retrieved`.
        labels: `[N]` class numbers.
        count: number of queries of each kind.
        seed: determines the random ones.
    """
    able = np.flatnonzero(retrieved.first > 0)
    shuffled, others = (np.random.default_rng([seed, draw]).permutation(able) for draw in range(2))
    right = retrieved.right[shuffled].sum(axis=1)
    orders = {"best": np.argsort(-right, kind="stable"), "worst": np.argsort(-retrieved.first[shuffled], kind="stable")}
    found = {kind: shuffled[order] for kind, order in orders.items()}
    found["worst"] = found["worst"][retrieved.first[found["worst"]] > 1]
    classes = labels[retrieved.queries]
    return {kind: _of_different_classes(each, classes, count) for kind, each in {**found, "random": others}.items()}


def draw_neighbors(
    retrieved: Retrieved,
    chosen: Mapping[str, np.ndarray],
    labels: Labels,
    names: Mapping[int, str],
    thumbnail: Thumbnail,
    path: FilePath,
) -> None:
    """Draws a sheet with a row for each chosen query: the query, then its nearest neighbors.

    Neighbors of its class have a green frame, others a red one.

    Args:
        retrieved: `tfdml.evaluation.queries.Retrieved`.
        chosen: title to places in `retrieved.queries`.
        labels: `[N]` class numbers.
        names: class number to name; others are written as numbers.
        thumbnail: function of a row and `side` that returns its picture, uint8 `[side, side, 3]`.
        path: the PNG to write.
    """
    chosen = {title: places for title, places in chosen.items() if len(places)}
    shown = retrieved.rows.shape[1]
    rows = sum(map(len, chosen.values()))
    sheet = Sheet(WORDS + ASIDE + (shown + 1) * CELL + MARGIN, len(chosen) * HEAD + rows * CELL + MARGIN)
    top, first = 0, WORDS + CELL + ASIDE
    for title, places in chosen.items():
        sheet.words(MARGIN, top + 10, title, size=14, bold=True)
        sheet.words(WORDS + FRAME, top + 12, "query", color=MUTED)
        sheet.words(first + FRAME, top + 12, f"the {shown} nearest neighbors", color=MUTED)
        top += HEAD
        for place in places:
            query = retrieved.queries[place]
            name = names.get(int(labels[query]), f"class {labels[query]}")
            sheet.words(MARGIN, top + FRAME, name, size=11, width=WORDS - 2 * MARGIN, lines=5)
            sheet.words(MARGIN, top + SIDE - 8, _found(retrieved, place), size=11, color=MUTED)
            sheet.picture(WORDS, top, thumbnail(query, side=SIDE))
            for number, (row, right) in enumerate(zip(retrieved.rows[place], retrieved.right[place], strict=True)):
                if row >= 0:
                    color = RIGHT if right else WRONG
                    sheet.picture(first + number * CELL, top, thumbnail(row, side=SIDE), color)
            top += CELL
    sheet.save(path)


def _found(retrieved, place):
    right, first = int(retrieved.right[place].sum()), int(retrieved.first[place])
    return f"{right} right" + (f", the first at rank {first}" if first > 1 else "")


def _of_different_classes(places, classes, count):
    """The first places, of each class one before any class has another."""
    order = np.argsort(classes[places], kind="stable")
    _, sizes = np.unique(classes[places], return_counts=True)
    turns = np.empty(len(places), np.int64)
    turns[order] = np.concatenate([np.arange(0), *map(np.arange, sizes)])
    return places[np.argsort(turns, kind="stable")][:count]

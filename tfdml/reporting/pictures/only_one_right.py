"""Draws images that only one learner gets right."""

import numpy as np

from tfdml.evaluation.diversity import learners_of, only_one_right
from tfdml.registry.arguments import Embeddings, FilePath, Labels
from tfdml.reporting.sheet import FRAME, RIGHT, WRONG, Sheet, Thumbnail

# Sizes on the sheet, in pixels.
SIDE, GAP, HEAD = 72, 8, 18


def draw_only_one_right(
    embeddings: Embeddings, labels: Labels, count: int, thumbnail: Thumbnail, path: FilePath, *, of_each: int = 3
) -> int:
    """Draws a sheet with a row for each such image: the image, then the nearest neighbor by each learner.

    Neighbors of its class have a green frame, others a red one (Figure 9 of Divide and Conquer).

    Args:
        embeddings: `[N, K * d]`, the learners side by side.
        labels: `[N]` class numbers.
        count: number K of learners.
        thumbnail: function of a row and `side` that returns its image, uint8 `[side, side, 3]`.
        path: the PNG to write.
        of_each: maximum number of images per learner.

    Returns:
        The number of images on the sheet; if it is 0, nothing is written.
    """
    learners = learners_of(embeddings, count)
    rows = [row for found in only_one_right(learners, labels) for row in found[:of_each]]
    if not rows:
        return 0
    cell = SIDE + 2 * FRAME + GAP
    sheet = Sheet(cell * (count + 1), HEAD + cell * len(rows))
    for column, title in enumerate(["image", *(f"learner {k}" for k in range(count))]):
        sheet.words(column * cell + FRAME, 2, title)
    for line, row in enumerate(rows):
        shown = [(row, "white")]
        for k in range(count):
            nearest = _nearest(learners[:, k], row)
            shown.append((nearest, RIGHT if labels[nearest] == labels[row] else WRONG))
        for column, (each, color) in enumerate(shown):
            sheet.picture(column * cell, HEAD + line * cell, thumbnail(each, side=SIDE), color)
    sheet.save(path)
    return len(rows)


def _nearest(embeddings, row):
    similarity = embeddings @ embeddings[row]
    similarity[row] = -np.inf
    return int(np.argmax(similarity))

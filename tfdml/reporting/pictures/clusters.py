"""Draws the clusters of Divide and Conquer with typical images."""

from collections.abc import Mapping

import numpy as np

from tfdml.registry import register
from tfdml.registry.arguments import Embeddings, FilePath, Labels
from tfdml.reporting.picture import Picture
from tfdml.reporting.sheet import FRAME, MUTED, Sheet, Thumbnail
from tfdml.run.experiment.judged_images import embedded_sample

# Sizes on the sheet, in pixels.
SIDE, GAP, HEAD, MARGIN, WORDS = 80, 6, 36, 10, 120
CELL = SIDE + 2 * FRAME + GAP
# Images of each cluster.
TYPICAL = 10


@register("picture", "clusters")
class Clusters(Picture):
    """Clusters of the training images, each of which one learner learns from."""

    place = 90
    of = "runs of --method=divide_and_conquer that have divided the data"

    def can_be_drawn(self, subject):
        return "clusters" in subject.model.pictures() and subject.clusters is not None

    def draw(self, subject, folder):
        path, (train, assignment) = folder / "clusters.png", subject.clusters
        rows, embeddings = embedded_sample(subject.experiment, subject.model, train)
        typical = typical_rows(embeddings, assignment[rows], TYPICAL)

        def thumbnail(place, side):
            return subject.thumbnail(rows[place], side, train)

        draw_clusters(typical, np.bincount(assignment).tolist(), thumbnail, path)
        return [path]


def typical_rows(embeddings: Embeddings, clusters: Labels, count: int) -> dict[int, np.ndarray]:
    """Returns cluster to the rows nearest to the mean of its embeddings, at most `count`, nearest first.

    Args:
        embeddings: `[N, d]` array.
        clusters: `[N]` integers.
        count: how many of each cluster.
    """
    found = {}
    for cluster in np.unique(clusters).tolist():
        rows = np.flatnonzero(clusters == cluster)
        distances = np.linalg.norm(embeddings[rows] - embeddings[rows].mean(axis=0), axis=1)
        found[cluster] = rows[np.argsort(distances, kind="stable")[:count]]
    return found


def draw_clusters(
    typical: Mapping[int, np.ndarray], sizes: Mapping[int, int], thumbnail: Thumbnail, path: FilePath
) -> None:
    """Draws a row of typical images for each cluster, and how many images it has.

    Args:
        typical: cluster to rows.
        sizes: cluster to its number of images.
        thumbnail: function of a row and `side` that returns its picture, uint8 `[side, side, 3]`.
        path: the PNG to write.
    """
    columns = max(map(len, typical.values()))
    sheet = Sheet(WORDS + columns * CELL + MARGIN, HEAD + len(typical) * CELL + MARGIN)
    sheet.words(MARGIN, 10, "learner", bold=True)
    sheet.words(WORDS + FRAME, 10, "images nearest to the mean of its cluster", bold=True)
    for number, (cluster, rows) in enumerate(typical.items()):
        top = HEAD + number * CELL
        sheet.words(MARGIN, top + FRAME, str(cluster), size=16, bold=True)
        sheet.words(MARGIN, top + FRAME + 26, f"{sizes[cluster]} images", color=MUTED)
        for place, row in enumerate(rows):
            sheet.picture(WORDS + place * CELL, top, thumbnail(row, side=SIDE))
    sheet.save(path)

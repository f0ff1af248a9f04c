"""Pictures of embeddings: neighbors, clusters, a map, confused classes, and TensorBoard's projector."""

import colorsys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tfdml.evaluation.evaluate import unit_length
from tfdml.evaluation.queries import Retrieved
from tfdml.registry import Count, register
from tfdml.registry.arguments import Distance, Embeddings, FilePath, Labels
from tfdml.reporting.sheets import FRAME, MUTED, RIGHT, WRONG, Picture, Sheet, Thumbnail
from tfdml.run.experiment.judged_images import clusters_of, embedded_sample
from tfdml.run.training.result import write_projector

# Sizes on the sheet, in pixels.
CLUSTER_SIDE, CLUSTER_GAP, CLUSTER_HEAD, CLUSTER_MARGIN, CLUSTER_WORDS = 80, 6, 36, 10, 120
CLUSTER_CELL = CLUSTER_SIDE + 2 * FRAME + CLUSTER_GAP
# Images of each cluster.
TYPICAL = 10


@register("picture", "clusters")
class ClusterSheet(Picture):
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
    sheet = Sheet(
        CLUSTER_WORDS + columns * CLUSTER_CELL + CLUSTER_MARGIN,
        CLUSTER_HEAD + len(typical) * CLUSTER_CELL + CLUSTER_MARGIN,
    )
    sheet.words(CLUSTER_MARGIN, 10, "learner", bold=True)
    sheet.words(CLUSTER_WORDS + FRAME, 10, "images nearest to the mean of its cluster", bold=True)
    for number, (cluster, rows) in enumerate(typical.items()):
        top = CLUSTER_HEAD + number * CLUSTER_CELL
        sheet.words(CLUSTER_MARGIN, top + FRAME, str(cluster), size=16, bold=True)
        sheet.words(CLUSTER_MARGIN, top + FRAME + 26, f"{sizes[cluster]} images", color=MUTED)
        for place, row in enumerate(rows):
            sheet.picture(CLUSTER_WORDS + place * CLUSTER_CELL, top, thumbnail(row, side=CLUSTER_SIDE))
    sheet.save(path)


# Images on the map, and sizes in pixels.
MOST_ON_MAP = 1000
WIDTH, MAP_SIDE, DOT = 1600, 32, 6
MAP_CELL = MAP_SIDE + 2 * FRAME
# How near the middles of two pictures may be, in parts of a picture.
NEAREST = 0.5
# Coordinates that differ by less are alike: t-SNE ends the process where all are.
ALIKE = 1e-6
# About how many neighbors t-SNE considers, scikit-learn's default, and its iterations, enough for a thousand images.
PERPLEXITY, ITERATIONS = 30, 500


@register("picture", "map")
class EmbeddingMap(Picture):
    """Map of the test images by t-SNE; frames and dots have the color of the class."""

    place = 40

    def draw(self, subject, folder):
        path, seed = folder / "map.png", subject.experiment.settings.run.seed
        count = min(len(subject.test), MOST_ON_MAP)
        # In random order: the first come first where pictures are in each other's way.
        rows = np.random.default_rng(seed).choice(len(subject.test), count, replace=False)
        positions = map_positions(subject.embeddings[rows], distance=subject.distance, seed=seed)

        def thumbnail(place, side):
            return subject.thumbnail(rows[place], side)

        draw_embedding_map(positions, subject.test.labels[rows], thumbnail, path)
        return [path]


def map_positions(embeddings: Embeddings, *, distance: Distance = "cosine", seed: int = 0) -> np.ndarray:
    """Returns positions `[N, 2]` by t-SNE, which starts from the first two principal components.

    Embeddings that no map can tell apart, of one dimension or all alike, are in a row.

    Args:
        embeddings: `[N, d]` array, of a few thousand rows at most.
        distance: `cosine` or `euclidean`.
        seed: determines how ties in the optimization are broken.
    """
    # Here, because it takes a second.
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    # Between unit vectors, Euclidean distances are in the order of cosines.
    vectors = embeddings if distance == "euclidean" else unit_length(embeddings)
    if len(vectors) < 4 or vectors.shape[1] < 2 or np.ptp(vectors, axis=0).max() < ALIKE:
        return np.stack([np.arange(len(vectors)), np.zeros(len(vectors))], axis=1).astype(np.float32)
    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    search = TSNE(init="pca", perplexity=perplexity, max_iter=ITERATIONS, random_state=seed)
    # Threads of so small a problem mostly wait for each other: ten times the time where other work is done.
    with threadpool_limits(1):
        return search.fit_transform(np.ascontiguousarray(vectors, np.float32))


def draw_embedding_map(positions: np.ndarray, labels: Labels, thumbnail: Thumbnail, path: FilePath) -> None:
    """Draws pictures at their positions, where not too many are in the way, and a dot for every other image.

    Frames and dots have the color of the class; classes share colors where there are many.

    Args:
        positions: `[N, 2]` array.
        labels: `[N]` class numbers.
        thumbnail: function of a place in these arrays and `side` that returns its picture, uint8 `[side, side, 3]`.
        path: the PNG to write.
    """
    low, high = positions.min(axis=0), positions.max(axis=0)
    scale = (WIDTH - MAP_CELL) / max(float((high - low).max()), 1e-9)
    middles = (positions - low) * scale + MAP_CELL / 2
    sheet = Sheet(*(int(np.ceil(extent * scale)) + MAP_CELL for extent in high - low))
    classes = np.unique(labels, return_inverse=True)[1]
    for (left, top), number in zip(middles, classes, strict=True):
        sheet.dot(left, top, DOT, class_color(number))
    for place in without_overlap(middles):
        left, top = (middles[place] - MAP_CELL / 2).astype(int)
        sheet.picture(left, top, thumbnail(place, side=MAP_SIDE), class_color(classes[place]))
    sheet.save(path)


def without_overlap(middles):
    """Returns places of pictures that cover little of each other, the first come first."""
    places = []
    for place, middle in enumerate(middles):
        if not np.any(np.all(np.abs(middles[places] - middle) < NEAREST * MAP_CELL, axis=1)):
            places.append(place)
    return places


def class_color(number):
    """Returns the color of a class: the golden angle keeps consecutive numbers apart."""
    red, green, blue = colorsys.hls_to_rgb(number * 0.618034 % 1.0, (0.35, 0.5, 0.65)[number % 3], 0.75)
    return tuple(round(255 * part) for part in (red, green, blue))


@register("picture", "projector")
class Projected(Picture):
    """The test images at their embeddings, in TensorBoard's projector."""

    if_named = True

    def draw(self, subject, folder):
        train, assignment = subject.clusters or (None, None)
        clusters = clusters_of(subject.embeddings, subject.experiment, subject.model, train, assignment)
        write_projector(subject.experiment, subject.embeddings, subject.run, subject.learner_count, clusters)
        return [subject.run.tensorboard / "projector_config.pbtxt"]


# Sizes on the sheet, in pixels.
NEIGHBOR_SIDE, NEIGHBOR_GAP, ASIDE, NEIGHBOR_HEAD, NEIGHBOR_MARGIN = 88, 6, 24, 34, 10
NEIGHBOR_CELL = NEIGHBOR_SIDE + 2 * FRAME + NEIGHBOR_GAP
NEIGHBOR_WORDS = 190


@register("picture", "neighbors")
class NeighborSheet(Picture):
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
    sheet = Sheet(
        NEIGHBOR_WORDS + ASIDE + (shown + 1) * NEIGHBOR_CELL + NEIGHBOR_MARGIN,
        len(chosen) * NEIGHBOR_HEAD + rows * NEIGHBOR_CELL + NEIGHBOR_MARGIN,
    )
    top, first = 0, NEIGHBOR_WORDS + NEIGHBOR_CELL + ASIDE
    for title, places in chosen.items():
        sheet.words(NEIGHBOR_MARGIN, top + 10, title, size=14, bold=True)
        sheet.words(NEIGHBOR_WORDS + FRAME, top + 12, "query", color=MUTED)
        sheet.words(first + FRAME, top + 12, f"the {shown} nearest neighbors", color=MUTED)
        top += NEIGHBOR_HEAD
        for place in places:
            query = retrieved.queries[place]
            name = names.get(int(labels[query]), f"class {labels[query]}")
            sheet.words(
                NEIGHBOR_MARGIN, top + FRAME, name, size=11, width=NEIGHBOR_WORDS - 2 * NEIGHBOR_MARGIN, lines=5
            )
            found, rank = f"{int(retrieved.right[place].sum())} right", int(retrieved.first[place])
            found += f", the first at rank {rank}" if rank > 1 else ""
            sheet.words(NEIGHBOR_MARGIN, top + NEIGHBOR_SIDE - 8, found, size=11, color=MUTED)
            sheet.picture(NEIGHBOR_WORDS, top, thumbnail(query, side=NEIGHBOR_SIDE))
            for number, (row, right) in enumerate(zip(retrieved.rows[place], retrieved.right[place], strict=True)):
                if row >= 0:
                    color = RIGHT if right else WRONG
                    sheet.picture(first + number * NEIGHBOR_CELL, top, thumbnail(row, side=NEIGHBOR_SIDE), color)
            top += NEIGHBOR_CELL
    sheet.save(path)


def _of_different_classes(places, classes, count):
    """The first places, of each class one before any class has another."""
    order = np.argsort(classes[places], kind="stable")
    _, sizes = np.unique(classes[places], return_counts=True)
    turns = np.empty(len(places), np.int64)
    turns[order] = np.concatenate([np.arange(0), *map(np.arange, sizes)])
    return places[np.argsort(turns, kind="stable")][:count]


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
    for number, confusion in enumerate(confusions):
        top = HEAD + number * height
        sheet.line(top - GAP)
        for left, label in zip(lefts, (confusion.label, confusion.taken_for), strict=False):
            name = names.get(label, f"class {label}")
            sheet.words(left, top + FRAME, name, size=11, width=WORDS - 2 * MARGIN, lines=9)
        sheet.words(lefts[2], top + FRAME, f"{len(confusion.pairs)} ({confusion.share:.0%})")
        sheet.words(lefts[2], top + CELL + FRAME, "nearest", color=MUTED, size=11)
        for place, (query, neighbor) in enumerate(confusion.pairs[:SHOWN]):
            left = 2 * WORDS + NUMBER + place * CELL
            sheet.picture(left, top, thumbnail(query, side=SIDE))
            sheet.picture(left, top + CELL, thumbnail(neighbor, side=SIDE), WRONG)
    sheet.save(path)
    return len(confusions)

"""Figures of embeddings: neighbors, clusters, a map, confused classes, and TensorBoard's projector."""

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
# Number of images per cluster.
TYPICAL = 10


@register("picture", "clusters")
class ClusterSheet(Picture):
    """Clusters of the training images, with one learner per cluster."""

    place = 90
    of = "runs of --method=divide_and_conquer that have clustered the data"

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
    """Returns the typical images of each cluster: the rows nearest to the mean of its embeddings.

    Args:
        embeddings: `[N, d]` array.
        clusters: `[N]` integer cluster labels.
        count: Integer. Largest number of rows per cluster.

    Returns:
        Dictionary from cluster to row numbers, nearest first.

    Example:

    ```python
    embeddings = np.array([[0.0], [1.0], [2.0], [9.0]])
    tfdml.reporting.typical_rows(embeddings, np.array([0, 0, 0, 1]), 1)[0]  # [1]
    ```
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
    """Draws a row of typical images for each cluster, with the size of the cluster.

    Args:
        typical: Dictionary from cluster to rows, for example from `typical_rows`.
        sizes: Dictionary from cluster to its number of images.
        thumbnail: Function of a row and `side` that returns the image of the row, uint8 `[side, side, 3]`.
        path: Path of the PNG file to write.

    Example:

    ```python
    def thumbnail(row, side):
        return np.full((side, side, 3), 40 * row, "uint8")

    typical, sizes = dict(enumerate([[1, 0], [3]])), dict(enumerate([20, 10]))
    tfdml.reporting.draw_clusters(typical, sizes, thumbnail, "clusters.png")
    ```
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


# Largest number of images on the map, and sizes in pixels.
MOST_ON_MAP = 1000
WIDTH, MAP_SIDE, DOT = 1600, 32, 6
MAP_CELL = MAP_SIDE + 2 * FRAME
# Smallest distance between the centers of two images, as a fraction of an image.
NEAREST = 0.5
# Coordinates that differ by less count as equal. If all are equal, t-SNE would abort the process.
ALIKE = 1e-6
# Number of neighbors that t-SNE considers (scikit-learn's default), and enough iterations for a thousand images.
PERPLEXITY, ITERATIONS = 30, 500


@register("picture", "map")
class EmbeddingMap(Picture):
    """Map of the test images by t-SNE: close images have similar embeddings, and colors show classes."""

    place = 40

    def draw(self, subject, folder):
        path, seed = folder / "map.png", subject.experiment.settings.run.seed
        count = min(len(subject.test), MOST_ON_MAP)
        # In random order, because earlier images have priority if images overlap.
        rows = np.random.default_rng(seed).choice(len(subject.test), count, replace=False)
        positions = map_positions(subject.embeddings[rows], distance=subject.distance, seed=seed)

        def thumbnail(place, side):
            return subject.thumbnail(rows[place], side)

        draw_embedding_map(positions, subject.test.labels[rows], thumbnail, path)
        return [path]


def map_positions(embeddings: Embeddings, *, distance: Distance = "cosine", seed: int = 0) -> np.ndarray:
    """Returns positions of embeddings on a 2D map, computed by t-SNE.

    The search starts from the first two principal components. If no map can separate the embeddings, because they have
    one dimension or are all equal, the positions are in a row.

    Args:
        embeddings: `[N, d]` array with at most a few thousand rows.
        distance: `"cosine"` or `"euclidean"`. Defaults to `"cosine"`.
        seed: Integer. Determines how ties in the optimization are broken. Defaults to `0`.

    Returns:
        Float array `[N, 2]`.

    Example:

    ```python
    embeddings = np.random.default_rng(0).normal(size=(30, 8))
    tfdml.reporting.map_positions(embeddings).shape  # (30, 2)
    ```
    """
    # Imported here because it takes a second.
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    # For L2-normalized vectors, Euclidean distance ranks pairs in the order of cosine similarity.
    vectors = embeddings if distance == "euclidean" else unit_length(embeddings)
    if len(vectors) < 4 or vectors.shape[1] < 2 or np.ptp(vectors, axis=0).max() < ALIKE:
        return np.stack([np.arange(len(vectors)), np.zeros(len(vectors))], axis=1).astype(np.float32)
    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    search = TSNE(init="pca", perplexity=perplexity, max_iter=ITERATIONS, random_state=seed)
    # The problem is so small that threads wait for each other. On a busy machine, they make it ten times slower.
    with threadpool_limits(1):
        return search.fit_transform(np.ascontiguousarray(vectors, np.float32))


def draw_embedding_map(positions: np.ndarray, labels: Labels, thumbnail: Thumbnail, path: FilePath) -> None:
    """Draws images at their positions on a map, and a dot for each image that would overlap others.

    Frames and dots have the color of the class. If there are many classes, some share a color.

    Args:
        positions: `[N, 2]` array, for example from `map_positions`.
        labels: `[N]` integer class labels.
        thumbnail: Function of a place in these arrays and `side` that returns the image, uint8 `[side, side, 3]`.
        path: Path of the PNG file to write.

    Example:

    ```python
    def thumbnail(row, side):
        return np.full((side, side, 3), 60 * row, "uint8")

    positions = np.array([[0.0, 0.0], [1.0, 0.5], [3.0, 1.0], [4.0, 0.5]])
    tfdml.reporting.draw_embedding_map(positions, np.array([0, 0, 1, 1]), thumbnail, "map.png")
    ```
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
    """Returns places of images that hardly overlap. Earlier places have priority."""
    places = []
    for place, middle in enumerate(middles):
        if not np.any(np.all(np.abs(middles[places] - middle) < NEAREST * MAP_CELL, axis=1)):
            places.append(place)
    return places


def class_color(number):
    """Returns the color of a class. The golden ratio separates the hues of consecutive numbers."""
    red, green, blue = colorsys.hls_to_rgb(number * 0.618034 % 1.0, (0.35, 0.5, 0.65)[number % 3], 0.75)
    return tuple(round(255 * part) for part in (red, green, blue))


@register("picture", "projector")
class Projected(Picture):
    """The test images at the positions of their embeddings, in TensorBoard's projector."""

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
    """Queries and their nearest neighbors, with green frames for the query's class and red frames for others.

    Args:
        queries: Integer. Number of queries of each kind. Defaults to `5`.
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
    """Chooses the best, the worst and random queries.

    The best queries have the most right neighbors. The worst queries find their first right neighbor latest.
    Within a kind, each class has one query before any class has a second. Queries without a right image in the gallery
    are left out.

    Args:
        retrieved: `tfdml.evaluation.queries.Retrieved`.
        labels: `[N]` integer class labels.
        count: Integer. Number of queries of each kind.
        seed: Integer. Determines the random queries. Defaults to `0`.

    Returns:
        Dictionary from `"best"`, `"worst"` and `"random"` to places in `retrieved.queries`.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    task = tfdml.evaluation.queries.RetrievalTask.of(labels)
    retrieved = tfdml.evaluation.queries.Retrieved.of(embeddings, task, 2)
    sorted(tfdml.reporting.chosen_queries(retrieved, labels, 2)["worst"].tolist())  # [1, 3]
    ```
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
    """Draws a sheet with one row per query: the query, followed by its nearest neighbors.

    Neighbors of the query's class have a green frame, others a red frame.

    Args:
        retrieved: `tfdml.evaluation.queries.Retrieved`.
        chosen: Dictionary from title to places in `retrieved.queries`, for example from `chosen_queries`.
        labels: `[N]` integer class labels.
        names: Dictionary from class label to name. Classes without a name are shown as numbers.
        thumbnail: Function of a row and `side` that returns the image of the row, uint8 `[side, side, 3]`.
        path: Path of the PNG file to write.

    Example:

    ```python
    def thumbnail(row, side):
        return np.full((side, side, 3), 60 * row, "uint8")

    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    task = tfdml.evaluation.queries.RetrievalTask.of(labels)
    retrieved = tfdml.evaluation.queries.Retrieved.of(embeddings, task, 2)
    chosen, names = tfdml.reporting.chosen_queries(retrieved, labels, 2), dict(enumerate(["cup", "mug"]))
    tfdml.reporting.draw_neighbors(retrieved, chosen, labels, names, thumbnail, "neighbors.png")
    ```
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
            found += f", first at rank {rank}" if rank > 1 else ""
            sheet.words(NEIGHBOR_MARGIN, top + NEIGHBOR_SIDE - 8, found, size=11, color=MUTED)
            sheet.picture(NEIGHBOR_WORDS, top, thumbnail(query, side=NEIGHBOR_SIDE))
            for number, (row, right) in enumerate(zip(retrieved.rows[place], retrieved.right[place], strict=True)):
                if row >= 0:
                    color = RIGHT if right else WRONG
                    sheet.picture(first + number * NEIGHBOR_CELL, top, thumbnail(row, side=NEIGHBOR_SIDE), color)
            top += NEIGHBOR_CELL
    sheet.save(path)


def _of_different_classes(places, classes, count):
    """Returns the first places, with one of each class before any class has a second."""
    order = np.argsort(classes[places], kind="stable")
    _, sizes = np.unique(classes[places], return_counts=True)
    turns = np.empty(len(places), np.int64)
    turns[order] = np.concatenate([np.arange(0), *map(np.arange, sizes)])
    return places[np.argsort(turns, kind="stable")][:count]


# Sizes on the sheet, in pixels.
SIDE, GAP, HEAD, MARGIN = 72, 6, 40, 10
CELL = SIDE + 2 * FRAME + GAP
WORDS, NUMBER = 170, 90
# Number of queries that are shown for each pair of classes.
SHOWN = 4


@register("picture", "confused")
class Confused(Picture):
    """Pairs of classes that the model confuses most often.

    Args:
        classes: Integer. Number of pairs of classes. Defaults to `8`.
    """

    classes: Count = 8
    place = 20

    def draw(self, subject, folder):
        path = folder / "confused.png"
        found = most_confused(subject.retrieved, subject.test.labels, self.classes)
        return [path] if draw_confused(found, subject.class_names, subject.thumbnail, path) else []


class Confusion(NamedTuple):
    """Queries of one class with a nearest neighbor of another class.

    Args:
        label, taken_for: The labels of the two classes.
        share: Float. The fraction of the class's queries for which this is the case.
        pairs: `[n, 2]` rows of these queries and of their nearest neighbors.
    """

    label: int
    taken_for: int
    share: float
    pairs: np.ndarray


def most_confused(retrieved: Retrieved, labels: Labels, count: int) -> list[Confusion]:
    """Returns the pairs of classes that are confused most often.

    Args:
        retrieved: `tfdml.evaluation.queries.Retrieved`. Only nearest neighbors are used.
        labels: `[N]` integer class labels.
        count: Integer. Largest number of pairs of classes.

    Returns:
        List of `Confusion` objects, starting with the largest number of queries.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    task = tfdml.evaluation.queries.RetrievalTask.of(labels)
    retrieved = tfdml.evaluation.queries.Retrieved.of(embeddings, task, 2)
    first = tfdml.reporting.most_confused(retrieved, labels, 2)[0]
    first.label, first.taken_for, first.share  # (0, 1, 0.5)
    ```
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
    """Draws a table of confused classes: two classes, how often they are confused, and examples.

    Each example is a query above its nearest neighbor.

    Args:
        confusions: List of `Confusion` objects. If it is empty, nothing is written.
        names: Dictionary from class label to name. Classes without a name are shown as numbers.
        thumbnail: Function of a row and `side` that returns the image of the row, uint8 `[side, side, 3]`.
        path: Path of the PNG file to write.

    Returns:
        The number of rows of the table.

    Example:

    ```python
    def thumbnail(row, side):
        return np.full((side, side, 3), 60 * row, "uint8")

    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    task = tfdml.evaluation.queries.RetrievalTask.of(labels)
    retrieved = tfdml.evaluation.queries.Retrieved.of(embeddings, task, 2)
    found = tfdml.reporting.most_confused(retrieved, labels, 2)
    tfdml.reporting.draw_confused(found, dict(enumerate(["cup", "mug"])), thumbnail, "confused.png")  # 2
    ```
    """
    if not confusions:
        return 0
    height = 2 * CELL + 2 * GAP
    sheet = Sheet(2 * WORDS + NUMBER + SHOWN * CELL + MARGIN, HEAD + len(confusions) * height)
    titles = ("class", "confused with", "queries", "queries, with nearest neighbors below")
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

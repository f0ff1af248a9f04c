"""Draws a map of embeddings with pictures (Figure 6 of Ranked List Loss)."""

import colorsys

import numpy as np

from tfdml.evaluation.evaluate import unit_length
from tfdml.registry import register
from tfdml.registry.arguments import Distance, Embeddings, FilePath, Labels
from tfdml.reporting.picture import Picture
from tfdml.reporting.sheet import FRAME, Sheet, Thumbnail

# Images on the map, and sizes in pixels.
MOST_ON_MAP = 1000
WIDTH, SIDE, DOT = 1600, 32, 6
CELL = SIDE + 2 * FRAME
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
    scale = (WIDTH - CELL) / max(float((high - low).max()), 1e-9)
    middles = (positions - low) * scale + CELL / 2
    sheet = Sheet(*(int(np.ceil(extent * scale)) + CELL for extent in high - low))
    classes = np.unique(labels, return_inverse=True)[1]
    for (left, top), number in zip(middles, classes, strict=True):
        sheet.dot(left, top, DOT, class_color(number))
    for place in without_overlap(middles):
        left, top = (middles[place] - CELL / 2).astype(int)
        sheet.picture(left, top, thumbnail(place, side=SIDE), class_color(classes[place]))
    sheet.save(path)


def without_overlap(middles):
    """Returns places of pictures that cover little of each other, the first come first."""
    chosen = np.zeros((0, 2))
    places = []
    for place, middle in enumerate(middles):
        if not np.any(np.all(np.abs(chosen - middle) < NEAREST * CELL, axis=1)):
            chosen = np.concatenate([chosen, middle[None]])
            places.append(place)
    return places


def class_color(number):
    """Returns the color of a class: the golden angle keeps consecutive numbers apart."""
    red, green, blue = colorsys.hls_to_rgb(number * 0.618034 % 1.0, (0.35, 0.5, 0.65)[number % 3], 0.75)
    return tuple(round(255 * part) for part in (red, green, blue))

"""Tells which places of two images make their embeddings similar, and draws it."""

from collections.abc import Sequence
from typing import NamedTuple

import keras
import matplotlib
import numpy as np
from PIL import Image, ImageOps

from tfdml.registry import register
from tfdml.registry.arguments import FilePath
from tfdml.reporting.picture import Picture
from tfdml.reporting.sheet import FRAME, MUTED, RIGHT, WRONG, Sheet

# Sizes on the sheet, in pixels.
SIDE, GAP, HEAD, BELOW, MARGIN = 128, 6, 40, 26, 10
CELL = SIDE + 2 * FRAME + GAP
COLORS = matplotlib.colormaps["RdBu_r"]
# How much of a place with the largest share is covered by its color.
COVER = 0.75
# Pairs of the same class, and of different classes.
PAIRS = 4


@register("picture", "similarity")
class Similarity(Picture):
    """Which places make a query and its nearest neighbor similar (red), and which do not (blue)."""

    place = 30
    of = "runs whose heads pool one feature map, such as --method=single"

    def can_be_drawn(self, subject):
        return subject.tells_places

    def draw(self, subject, folder):
        retrieved, path = subject.retrieved, folder / "similarity.png"
        chosen = _with_neighbors(retrieved, subject.experiment.settings.run.seed)
        if not chosen:
            return []
        rows = np.stack([retrieved.queries[chosen], retrieved.rows[chosen, 0]], axis=1)
        inputs = subject.inputs(rows.ravel())
        pairs = [
            (*subject.pixels(images), similarity_map(subject.model, *images), retrieved.right[place, 0])
            for place, images in zip(chosen, inputs.reshape(len(chosen), 2, *inputs.shape[1:]), strict=True)
        ]
        draw_similarities_of_places(pairs, path)
        return [path]


def _with_neighbors(retrieved, seed):
    """Returns places of random queries in `retrieved`: those whose nearest neighbor is right, then others."""
    order, chosen = np.random.default_rng(seed).permutation(len(retrieved.queries)), []
    for right in (True, False):
        places = [place for place in order if retrieved.right[place, 0] == right and retrieved.rows[place, 0] >= 0]
        chosen += places[:PAIRS]
    return chosen


class SimilarityMap(NamedTuple):
    """The similarity of two images, divided among the places of each.

    Args:
        similarity: the inner product of the embeddings.
        of_a, of_b: `[h, w]` arrays, the shares of the places of each image; the sum of each is `similarity`.
    """

    similarity: float
    of_a: np.ndarray
    of_b: np.ndarray


def similarity_map(model: keras.Model, a: np.ndarray, b: np.ndarray, *, learner: int | None = None) -> SimilarityMap:
    """Divides the inner product of two images' embeddings among the places of the last feature map, exactly.

    Where features are pooled over places and a linear layer follows, an embedding is the sum of what each place
    contributes, plus what no place does: the bias, and the offset of a norm. So the share of place p of image a is

    `share(p) = <contribution of p to the embedding of a, embedding of b> + <rest of a, embedding of b> / places`

    and vice versa for b. Contributions are divided by the length of the embedding, as the embedding is; the rest is
    spread evenly over places. A share may be negative. A place sees more of the image than lies under it, as its
    receptive field does. Behind the feature map all is float32, whatever the model's precision. Of several learners,
    whose embeddings lie side by side, shares are means over learners.

    Example: `similarity_map(loaded.model, *loaded.prepare(["a.jpg", "b.jpg"]))` where `loaded = tfdml.load("runs/x")`.

    Args:
        model: a model of `tfdml.methods` whose heads pool and have one linear layer: `Single`, `DivideAndConquer`,
            `AttentionEnsemble`, `MultiHead` or `MultiTail` with any head of `linear(...)` but `pooling='first'`. Others
            raise a ValueError that says why.
        a, b: images `[H, W, 3]` as the network takes them.
        learner: number of the learner whose embeddings are compared; None: all together.

    Returns:
        `SimilarityMap`.
    """
    images = np.stack([a, b])
    if images.ndim != 4:
        raise ValueError(f"Expected two images [H, W, 3], received shapes {np.shape(a)} and {np.shape(b)}.")
    return similarity_maps(model, images, learner=learner)[0]


def similarity_maps(model: keras.Model, images: np.ndarray, *, learner: int | None = None) -> list[SimilarityMap]:
    """Divides the inner products of the first image's embedding with those of the others, as `similarity_map` does.

    Args:
        model, learner: as `similarity_map` takes them.
        images: `[1 + n, H, W, 3]` as the network takes them.

    Returns:
        A list of n `SimilarityMap`, in each of which `a` is the first image.
    """
    if not model.built:
        model(images)
    parts, rest = (np.asarray(each, np.float64) for each in model.places(images))
    if learner is not None:
        if not 0 <= learner < rest.shape[1]:
            raise ValueError(f"Expected a learner from 0 to {rest.shape[1] - 1}, received {learner}.")
        parts, rest = parts[:, :, :, [learner]], rest[:, [learner]]
    embeddings = parts.sum(axis=(1, 2)) + rest
    places, learners = parts.shape[1] * parts.shape[2], rest.shape[1]

    def shares(image, other):
        even = np.sum(rest[image] * embeddings[other]) / places
        return (np.einsum("hwkd,kd->hw", parts[image], embeddings[other]) + even) / learners

    return [
        SimilarityMap(float(np.sum(embeddings[0] * embeddings[other]) / learners), shares(0, other), shares(other, 0))
        for other in range(1, len(images))
    ]


def draw_similarities_of_places(
    pairs: Sequence[tuple[np.ndarray, np.ndarray, SimilarityMap, bool]], path: FilePath
) -> None:
    """Draws pairs of images, each image beside a copy that shows the shares of its places.

    Red places make the two more similar, blue ones less. The colors of both images of a pair have the same scale.

    Args:
        pairs: list of `(picture, picture, SimilarityMap, right)`: two uint8 `[H, W, 3]`, which lie in the middle of
            a square if they are none, what `similarity_map` gives, and whether the two are of the same class.
        path: the PNG to write.
    """
    block = 4 * CELL + 2 * MARGIN
    columns = min(len(pairs), 2)
    sheet = Sheet(columns * block, HEAD + -(-len(pairs) // columns) * (CELL + BELOW))
    sheet.words(
        MARGIN, 10, "query and nearest neighbor: what makes them similar (red), what does not (blue)", bold=True
    )
    for number, (first, second, shares, right) in enumerate(pairs):
        left, top = number % columns * block + MARGIN, HEAD + number // columns * (CELL + BELOW)
        largest = max(np.abs(shares.of_a).max(), np.abs(shares.of_b).max(), 1e-12)
        shown = [
            (resized(first), None),
            (overlaid(first, shares.of_a / largest), None),
            (overlaid(second, shares.of_b / largest), None),
            (resized(second), RIGHT if right else WRONG),
        ]
        for column, (picture, color) in enumerate(shown):
            pixels = np.asarray(ImageOps.pad(picture, (SIDE, SIDE), color="white"))
            sheet.picture(left + column * CELL, top, pixels, color)
        kind = "the same class" if right else "different classes"
        sheet.words(left + FRAME, top + CELL - 2, f"inner product {shares.similarity:.2f}, {kind}", color=MUTED)
    sheet.save(path)


def overlaid(picture, shares):
    """Returns a picture in gray, under the color of each place's share from -1 to 1, in the size on the sheet."""
    shown = resized(picture)
    spread = Image.fromarray(shares.astype(np.float32)).resize(shown.size, Image.Resampling.BICUBIC)
    spread = np.clip(np.asarray(spread), -1, 1)
    gray = np.asarray(shown.convert("L").convert("RGB"), np.float32)
    cover = COVER * np.abs(spread)[..., None]
    colors = 255 * COLORS(0.5 + 0.5 * np.sign(spread) * np.abs(spread) ** 0.5)[..., :3]
    return Image.fromarray(np.round(gray * (1 - cover) + colors * cover).astype(np.uint8))


def resized(picture):
    """Returns a picture in the size that it has on the sheet."""
    return ImageOps.contain(Image.fromarray(picture), (SIDE, SIDE), Image.Resampling.BICUBIC)

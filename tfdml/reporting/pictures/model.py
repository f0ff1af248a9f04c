"""Figures of a model: attention masks, learners, regions that make images similar, and training curves."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
import matplotlib
import numpy as np
from matplotlib.figure import Figure
from PIL import Image, ImageDraw, ImageOps

from tfdml.files.checked import vacated
from tfdml.registry import register
from tfdml.registry.arguments import FilePath
from tfdml.reporting.pictures.verification import draw_only_one_right
from tfdml.reporting.sheets import (
    COLORS,
    FRAME,
    MUTED,
    RIGHT,
    WRONG,
    Picture,
    Sheet,
    in_percent,
    label,
    legend_above,
    new_chart,
    save_chart,
)
from tfdml.run.study.runs import curve

# Sizes on the sheet, in pixels.
MASK_SIDE, MASK_GAP, MASK_HEAD = 96, 4, 18
CHANNELS = 3
MASK_COLORS = matplotlib.colormaps["inferno"]
# Number of images on the sheet.
SHOWN = 6


@register("picture", "attention")
class Attention(Picture):
    """Where each learner looks: its attention mask, averaged over channels and for single channels.

    Args:
        channels: Tuple of integers. Numbers of the channels to draw. If `None`, the channels in which learners differ
            most are drawn. Defaults to `None`.
        learners: Tuple of integers. Numbers of the learners to draw. If `None`, all are drawn. Defaults to `None`.
    """

    channels: tuple[int, ...] | None = None
    learners: tuple[int, ...] | None = None
    place = 95
    of = "runs with attention masks, such as --method=attention_ensemble"

    def can_be_drawn(self, subject):
        return "attention" in subject.model.pictures()

    def draw(self, subject, folder):
        # Evenly spaced rows are usually of different classes.
        images = subject.inputs(np.linspace(0, len(subject.test) - 1, SHOWN).astype(int))
        path = folder / "attention.png"
        # Sums of half-precision numbers are too inaccurate.
        masks = subject.model.attention_masks(images).numpy().astype(np.float32)
        draw_attention(subject.pixels(images), masks, path, channels=self.channels, learners=self.learners)
        return [path]


def draw_attention(
    pictures: np.ndarray,
    masks: np.ndarray,
    path: FilePath,
    *,
    channels: Sequence[int] | None = None,
    learners: Sequence[int] | None = None,
) -> None:
    """Draws a sheet with the attention masks of each learner on images (Figure 6 of Attention-based Ensemble).

    Each row shows an image and the mean over channels of each learner's mask on it. Rows below show the masks of single
    channels. Learners attend to bright areas. Brightness is relative to the range of all learners' masks in the row.

    Args:
        pictures: `[B, H, W, 3]` uint8 array. Images that are not square are padded to squares.
        masks: `[B, M, h, w, c]` array with values from 0 to 1, for M learners.
        path: Path of the PNG file to write.
        channels: Sequence of integers. Channels to draw. If `None`, the channels in which learners differ most are
            drawn. Defaults to `None`.
        learners: Sequence of integers. Learners to draw. If `None`, all are drawn. Defaults to `None`.

    Raises:
        ValueError: If a channel or a learner does not exist.

    Example:

    ```python
    random = np.random.default_rng(0)
    images, masks = random.integers(0, 256, (2, 32, 32, 3), "uint8"), random.random((2, 3, 4, 4, 8))
    tfdml.reporting.draw_attention(images, masks, "attention.png", channels=[0])
    ```
    """
    learners = range(masks.shape[1]) if learners is None else learners
    for kind, numbers, count in (("channels", channels or [], masks.shape[4]), ("learners", learners, masks.shape[1])):
        if any(not 0 <= number < count for number in numbers):
            raise ValueError(f"{kind} must be from 0 to {count - 1}. Received: {kind}={list(numbers)}.")
    if channels is None:
        channels = np.argsort(-masks.std(axis=1).mean(axis=(0, 1, 2)))[:CHANNELS].tolist()
    kinds = {"mean": masks.mean(axis=4), **{f"channel {number}": masks[..., number] for number in channels}}
    kinds = {kind: values[:, list(learners)] for kind, values in kinds.items()}
    cell = MASK_SIDE + MASK_GAP
    part = MASK_HEAD + cell * len(pictures)
    sheet = Image.new("RGB", (cell * (len(learners) + 1), part * len(kinds)), "white")
    draw = ImageDraw.Draw(sheet)
    for number, (kind, values) in enumerate(kinds.items()):
        top = part * number
        for column, title in enumerate([kind, *(f"learner {k}" for k in learners)]):
            draw.text((column * cell + 2, top + 2), title, fill="black")
        for row, picture in enumerate(pictures):
            resized = ImageOps.contain(Image.fromarray(picture), (MASK_SIDE, MASK_SIDE), Image.Resampling.BILINEAR)
            for column, each in enumerate([resized, *_over(resized, values[row])]):
                whole = ImageOps.pad(each, (MASK_SIDE, MASK_SIDE), color="white")
                sheet.paste(whole, (column * cell, top + MASK_HEAD + row * cell))
    sheet.save(vacated(path))


def _over(picture, masks):
    """Yields an image blended with each of its masks `[M, h, w]`."""
    low, high = masks.min(), masks.max()
    for mask in (masks - low) / max(high - low, 1e-6):
        bright = Image.fromarray(mask.astype(np.float32)).resize(picture.size, Image.Resampling.BILINEAR)
        heat = Image.fromarray((255 * MASK_COLORS(np.asarray(bright))[..., :3]).astype(np.uint8))
        yield Image.blend(picture, heat, 0.6)


@register("picture", "learners")
class Learners(Picture):
    """Score of each learner alone (bars) and of the first learners together (line)."""

    captions = {
        "pair_cosines": "Cosine similarities of positive pairs, negative pairs, and one image embedded by two learners",
        "only_one_right": "Images that only one learner gets right, with the nearest neighbor that each learner finds",
        "negative_distances": "Distances between images of different classes, within clusters and between clusters",
    }
    place = 80
    of = "runs with several learners, such as --method=divide_and_conquer or --method=attention_ensemble"

    def can_be_drawn(self, subject):
        return subject.learner_count > 1

    def draw(self, subject, folder):
        labels, count = subject.test.labels, subject.learner_count
        drawn = [folder / "learners.png", folder / "pair_cosines.png"]
        draw_learners(subject.learners, drawn[0])
        draw_pair_cosines(subject.learners["pair_cosines"], drawn[1])
        path = folder / "only_one_right.png"
        if draw_only_one_right(subject.embeddings, labels, count, subject.thumbnail, path):
            drawn.append(path)
        if subject.negative_distances:
            drawn.append(folder / "negative_distances.png")
            draw_negative_distances(subject.negative_distances, drawn[-1])
        return drawn


def draw_learners(learners: Mapping[str, Any], path: FilePath) -> None:
    """Draws the score of each learner alone, and of the first learners together (Figure 10 of Divide and Conquer).

    Args:
        learners: The result of `tfdml.evaluation.diversity`, of which the first metric is drawn.
        path: Path of the PNG file to write. Charts are also written as an SVG file next to it.

    Example:

    ```python
    scores = [{"recall_at_1": 0.5}, {"recall_at_1": 0.6}]
    learners = {"alone": scores, "first": scores, "correlation": 0.1}
    tfdml.reporting.draw_learners(learners, "learners.png")
    ```
    """
    metric = next(name for name in learners["first"][0] if name != "queries")
    alone, first = ([metrics[metric] for metrics in learners[kind]] for kind in ("alone", "first"))
    numbers = np.arange(len(alone))
    across = f"learner (mean correlation {learners['correlation']:.3f})"
    figure, axes = new_chart(across, metric.replace("recall_at_", "Recall@"))
    axes.bar(numbers, alone, color="#9ecae1", label="each learner alone")
    axes.plot(numbers, first, "o-", color="#d95f02", label="all learners up to this one")
    axes.set_xticks(numbers)
    if metric.startswith("recall_at_"):
        in_percent(axes.yaxis)
    legend_above(axes)
    save_chart(figure, path)


def draw_negative_distances(distances: Mapping[str, Any], path: FilePath) -> None:
    """Draws the distances of negative pairs within and between clusters (Figure 8 of Divide and Conquer).

    Args:
        distances: The result of `tfdml.evaluation.diversity.negative_distances`.
        path: Path of the PNG file to write. Charts are also written as an SVG file next to it.

    Example:

    ```python
    from tfdml.evaluation.diversity import negative_distances

    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    found = negative_distances(embeddings, np.array([0, 1, 2, 3]), np.array([0, 0, 1, 1]))
    tfdml.reporting.draw_negative_distances(found, "negative_distances.png")
    ```
    """
    names = {"within": "within clusters", "between": "between clusters"}
    _draw_shares(distances, names, "distance of negative pairs", path)


def draw_pair_cosines(cosines: Mapping[str, Any], path: FilePath) -> None:
    """Draws histograms of the cosines of positive, negative and self pairs (Figure 5 of Attention-based Ensemble).

    A self pair is one image, embedded by two learners.

    Args:
        cosines: The result of `tfdml.evaluation.diversity.pair_cosines`.
        path: Path of the PNG file to write. Charts are also written as an SVG file next to it.

    Example:

    ```python
    from tfdml.evaluation.diversity import learners_of, pair_cosines

    embeddings = np.random.default_rng(0).normal(size=(8, 6))
    found = pair_cosines(learners_of(embeddings, 2), np.arange(8) // 2)
    tfdml.reporting.draw_pair_cosines(found, "pair_cosines.png")
    ```
    """
    names = {"negative": "negative pairs", "positive": "positive pairs", "self": "one image, two learners"}
    _draw_shares(cosines, names, "cosine similarity", path)


def _draw_shares(shares, names, across, path):
    figure, axes = new_chart(across, "share of pairs")
    for (kind, name), color in zip(names.items(), ("#d95f02", "#3182bd", "#2ca25f"), strict=False):
        mean = shares[f"mean_{kind}"]
        if mean is not None:
            options = {"fill": True, "alpha": 0.5, "color": color}
            axes.stairs(shares[kind], shares["edges"], label=f"{name}, mean {mean:.2f}", **options)
    legend_above(axes)
    save_chart(figure, path)


# Sizes on the sheet, in pixels.
SIDE, GAP, HEAD, BELOW, MARGIN = 128, 6, 40, 26, 10
CELL = SIDE + 2 * FRAME + GAP
SIMILARITY_COLORS = matplotlib.colormaps["RdBu_r"]
# Opacity of the color on the place with the largest share.
COVER = 0.75
# Number of pairs of the same class, and of different classes.
PAIRS = 4


@register("picture", "similarity")
class Similarity(Picture):
    """Regions that make a query and its nearest neighbor more similar (red) or less similar (blue)."""

    place = 30
    of = "runs with heads that pool one feature map, such as --method=single"

    def can_be_drawn(self, subject):
        return subject.tells_places

    def draw(self, subject, folder):
        retrieved, path = subject.retrieved, folder / "similarity.png"
        order = np.random.default_rng(subject.experiment.settings.run.seed).permutation(len(retrieved.queries))
        chosen = []
        # Random queries with a right nearest neighbor first, then queries with a wrong one.
        for right in (True, False):
            kind = (retrieved.right[order, 0] == right) & (retrieved.rows[order, 0] >= 0)
            chosen += order[kind][:PAIRS].tolist()
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


class SimilarityMap(NamedTuple):
    """The similarity of two images, divided among the places of each.

    Args:
        similarity: Float. The inner product of the embeddings.
        of_a, of_b: `[h, w]` arrays. The shares of the places of each image. Each array sums to `similarity`.
    """

    similarity: float
    of_a: np.ndarray
    of_b: np.ndarray


def similarity_map(model: keras.Model, a: np.ndarray, b: np.ndarray, *, learner: int | None = None) -> SimilarityMap:
    """Divides the inner product of two images' embeddings among the places of the last feature map, exactly.

    Use this function to see which regions of two images make them similar. If features are pooled over places and a
    linear layer follows, an embedding is the sum of what each place contributes, plus a rest that belongs to no place:
    the bias, and the offset of a normalization layer. So the share of place p of image a is

    `share(p) = <contribution of p to the embedding of a, embedding of b> + <rest of a, embedding of b> / places`

    and vice versa for b. Contributions are divided by the length of the embedding, as the embedding itself is. The rest
    is distributed evenly over places. A share may be negative. A place depends on more of the image than the region
    that it covers, because of its receptive field. Computations after the feature map use float32, whatever the
    precision of the model. For several learners with concatenated embeddings, shares are means over learners.

    For image files, load the run with `loaded = tfdml.load("runs/x")` and call `similarity_map(loaded.model,
    *loaded.prepare(["a.jpg", "b.jpg"]))`.

    Args:
        model: A model of `tfdml.methods` with heads that pool and have one linear layer: `Single`, `DivideAndConquer`,
            `AttentionEnsemble`, `MultiHead` or `MultiTail` with any head of `linear(...)` except `pooling='first'`.
        a, b: Images `[H, W, 3]` as inputs of the network.
        learner: Integer. Number of the learner to use. If `None`, all learners are used together. Defaults to `None`.

    Returns:
        `SimilarityMap`.

    Raises:
        ValueError: If the model has another kind of head, if `learner` does not exist, or if shapes are wrong.

    Example:

    ```python
    model = tfdml.Single(tfdml.backbones.Small(width=8, stages=2), embedding_size=16)
    a, b = np.random.default_rng(0).uniform(-2, 2, (2, 32, 32, 3)).astype("float32")
    tfdml.reporting.similarity_map(model, a, b).of_a.shape  # (16, 16)
    ```
    """
    images = np.stack([a, b])
    if images.ndim != 4:
        raise ValueError(f"Expected two images of shape [H, W, 3]. Received: shapes {np.shape(a)} and {np.shape(b)}.")
    return similarity_maps(model, images, learner=learner)[0]


def similarity_maps(model: keras.Model, images: np.ndarray, *, learner: int | None = None) -> list[SimilarityMap]:
    """Divides the similarities of the first image to all others among places; see `similarity_map`.

    Args:
        model, learner: see `similarity_map`.
        images: `[1 + n, H, W, 3]` array of inputs of the network.

    Returns:
        List of n `SimilarityMap` objects, in which `a` is the first image.

    Example:

    ```python
    model = tfdml.Single(tfdml.backbones.Small(width=8, stages=2), embedding_size=16)
    images = np.random.default_rng(0).uniform(-2, 2, (3, 32, 32, 3)).astype("float32")
    len(tfdml.reporting.similarity_maps(model, images))  # 2
    ```
    """
    if not model.built:
        model(images)
    parts, rest = (np.asarray(pieces, np.float64) for pieces in model.places(images))
    if learner is not None:
        if not 0 <= learner < rest.shape[1]:
            raise ValueError(f"learner must be from 0 to {rest.shape[1] - 1}. Received: learner={learner}.")
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
    """Draws pairs of images, each image next to a copy that shows the shares of its places.

    Red regions make the two images more similar, blue regions less similar. The colors of both images of a pair have
    the same scale.

    Args:
        pairs: List of `(picture, picture, SimilarityMap, right)`: two uint8 images `[H, W, 3]`, which are padded to
            squares, the result of `similarity_map`, and whether the two are of the same class.
        path: Path of the PNG file to write.

    Example:

    ```python
    model = tfdml.Single(tfdml.backbones.Small(width=8, stages=2), embedding_size=16)
    a, b = np.random.default_rng(0).uniform(-2, 2, (2, 32, 32, 3)).astype("float32")
    pictures = (60 * (np.stack([a, b]) + 2)).astype("uint8")
    shares = tfdml.reporting.similarity_map(model, a, b)
    tfdml.reporting.draw_similarities_of_places([(*pictures, shares, True)], "similarity.png")
    ```
    """
    block = 4 * CELL + 2 * MARGIN
    columns = min(len(pairs), 2)
    sheet = Sheet(columns * block, HEAD + -(-len(pairs) // columns) * (CELL + BELOW))
    sheet.words(MARGIN, 10, "red regions make query and neighbor more similar, blue regions less similar", bold=True)
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
    """Returns an image in gray with the color of each place's share from -1 to 1, in the size on the sheet."""
    shown = resized(picture)
    spread = Image.fromarray(shares.astype(np.float32)).resize(shown.size, Image.Resampling.BICUBIC)
    spread = np.clip(np.asarray(spread), -1, 1)
    gray = np.asarray(shown.convert("L").convert("RGB"), np.float32)
    cover = COVER * np.abs(spread)[..., None]
    colors = 255 * SIMILARITY_COLORS(0.5 + 0.5 * np.sign(spread) * np.abs(spread) ** 0.5)[..., :3]
    return Image.fromarray(np.round(gray * (1 - cover) + colors * cover).astype(np.uint8))


def resized(picture):
    """Returns an image in the size that it has on the sheet."""
    return ImageOps.contain(Image.fromarray(picture), (SIDE, SIDE), Image.Resampling.BICUBIC)


# Title of each chart, to names of metrics, or to how names start, in the events of `metrics.jsonl`.
PANELS = {
    "Recall@K": ("evaluation", ("recall_at_",)),
    "MAP@R and R-precision": ("evaluation", ("map_at_r", "r_precision", "map")),
    "Loss": ("train", ("loss",)),
    "Distances within a batch": ("train", ("positive_distance", "negative_distance")),
    "Share of anchors with a loss above 0": ("train", ("active_anchors",)),
    "Gradient norm": ("train", ("gradient_norm",)),
    "Loss of each learner": ("learners", ("loss_of_learner_",)),
    "Learning rate": ("train", ("learning_rate",)),
}
# Titles of the charts with scores from 0 to 1, which are shown in percent.
IN_PERCENT = ("Recall@K", "MAP@R and R-precision")
COLUMNS = 3


@register("picture", "training")
class Training(Picture):
    """Training curves: scores, losses and the learning rate by step."""

    place = 70
    of = "runs of tfdml.train"
    on_page = False

    def can_be_drawn(self, subject):
        return subject.run.metrics.is_file()

    def draw(self, subject, folder):
        path = folder / "training.png"
        return [path] if draw_training(subject.run.events(), path) else []


def training_curves(events):
    """Returns the curves in the events of `metrics.jsonl`: title of a chart to name to `(steps, values)`.

    Charts without a curve are left out.
    """
    charts = {}
    for title, (kind, wanted) in PANELS.items():
        beginnings, curves = tuple(name for name in wanted if name.endswith("_")), {}
        for event in events:
            for name, value in event.items() if event.get("event") == kind else ():
                if isinstance(value, float | int) and (name in wanted or name.startswith(beginnings)):
                    steps, values = curves.setdefault(name, ([], []))
                    steps.append(event["step"])
                    values.append(value)
        if curves:
            charts[title] = curves
    return charts


def draw_training(events: Sequence[Mapping[str, Any]], path: FilePath) -> int:
    """Draws the curves of a run by step. The run may still be training.

    Args:
        events: List of the events in `metrics.jsonl`.
        path: Path of the PNG file to write. Charts are also written as an SVG file next to it.

    Returns:
        The number of charts. If it is 0, nothing is written.

    Example:

    ```python
    events = [{"event": "evaluation", "step": step, "recall_at_1": step / 100} for step in (0, 20, 40)]
    tfdml.reporting.draw_training(events, "training.png")  # 1
    ```
    """
    charts = training_curves(events)
    if not charts:
        return 0
    rows = -(-len(charts) // COLUMNS)
    figure = Figure(figsize=(4 * COLUMNS, 3 * rows), dpi=100, layout="constrained")
    for place, (title, curves) in enumerate(charts.items(), 1):
        axes = figure.add_subplot(rows, COLUMNS, place)
        for number, (name, (steps, values)) in enumerate(curves.items()):
            # Markers, because a single point does not draw a line.
            marker = "o" if len(steps) < 12 else None
            color, shown = COLORS[number % len(COLORS)], name.replace("recall_at_", "Recall@").replace("loss_of_", "")
            axes.plot(steps, values, color=color, label=shown.replace("_", " "), marker=marker, markersize=3)
        axes.set_title(title, fontsize=10)
        if title in IN_PERCENT:
            in_percent(axes.yaxis)
        label(axes, "step", "")
        axes.set_ylim(bottom=min(0, *(min(values) for _, values in curves.values())))
        axes.grid(color="#eeeeee")
        if len(curves) > 1:
            axes.legend(frameon=False, fontsize=7)
    save_chart(figure, path)
    return len(charts)


# Line styles, because there may be more rows than colors.
ROW_STYLES = ("-", "--", ":")


def draw_curves(run_dirs, path, metric="recall_at_1"):
    """Draws the score of each row by training step: the mean over seeds, and each seed as a thin line.

    `run_dirs` maps the name of a row to its run directories. Returns the names of the rows that have no curve, such as
    ensembles, or None if there is nothing to draw.
    """
    # In inches, high enough for the names of all rows.
    height = max(5.0, 0.2 * len(run_dirs))
    figure = Figure(figsize=(8, height), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    colors, not_drawn = matplotlib.colormaps["tab20"].colors, []
    for place, (name, several) in enumerate(run_dirs.items()):
        color, style = colors[place % len(colors)], ROW_STYLES[place // len(colors) % len(ROW_STYLES)]
        curves = [found for found in (curve(run_dir, metric) for run_dir in several) if found]
        if not curves:
            not_drawn.append(name)
            continue
        for values in curves:
            axes.plot(values.keys(), values.values(), color=color, linewidth=0.5, alpha=0.5)
        # If a run has stopped early, the mean ends at its last step.
        common = sorted(set.intersection(*map(set, curves)))
        means = [statistics.mean(values[step] for values in curves) for step in common]
        axes.plot(common, means, style, color=color, label=name)
    if not axes.lines:
        return None
    label(axes, "step", metric.replace("recall_at_", "Recall@"))
    if metric.startswith("recall_at_"):
        in_percent(axes.yaxis)
    axes.grid(axis="y", alpha=0.3)
    figure.legend(loc="outside right upper", frameon=False, fontsize="small")
    figure.savefig(path)
    return not_drawn

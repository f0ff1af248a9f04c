"""Pictures of a model: attention masks, learners, places that make images similar, and curves of training."""

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
# Images of the sheet.
SHOWN = 6


@register("picture", "attention")
class Attention(Picture):
    """Where each learner looks: the mean over channels, and single channels, of its mask.

    Args:
        channels: numbers of channels; None: those in which learners differ most.
        learners: numbers of learners; None: all.
    """

    channels: tuple[int, ...] | None = None
    learners: tuple[int, ...] | None = None
    place = 95
    of = "runs with attention masks, such as --method=attention_ensemble"

    def can_be_drawn(self, subject):
        return "attention" in subject.model.pictures()

    def draw(self, subject, folder):
        # Of different classes, from one end of the split to the other.
        images = subject.inputs(np.linspace(0, len(subject.test) - 1, SHOWN).astype(int))
        path = folder / "attention.png"
        # Half precision adds up to little.
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
    """Draws a sheet with a row for each image: the image, then the mean over channels of each learner's mask on it.

    Rows below show the masks of some channels (Figure 6). A learner attends to bright areas; brightness is relative to
    the range of the learners' masks in that row.

    Args:
        pictures: `[B, H, W, 3]` uint8; those that are not square lie in the middle of one.
        masks: `[B, M, h, w, c]` from 0 to 1.
        path: the PNG to write.
        channels: channels to draw; None: those in which learners differ most.
        learners: learners to draw; None: all.
    """
    learners = range(masks.shape[1]) if learners is None else learners
    for kind, numbers, count in (("channels", channels or [], masks.shape[4]), ("learners", learners, masks.shape[1])):
        if any(not 0 <= number < count for number in numbers):
            raise ValueError(f"Expected {kind} from 0 to {count - 1}, received {', '.join(map(str, numbers))}.")
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
    """Draws an image under each of its masks `[M, h, w]`."""
    low, high = masks.min(), masks.max()
    for mask in (masks - low) / max(high - low, 1e-6):
        bright = Image.fromarray(mask.astype(np.float32)).resize(picture.size, Image.Resampling.BILINEAR)
        heat = Image.fromarray((255 * MASK_COLORS(np.asarray(bright))[..., :3]).astype(np.uint8))
        yield Image.blend(picture, heat, 0.6)


@register("picture", "learners")
class Learners(Picture):
    """Each learner alone, and the first ones together."""

    captions = {
        "pair_cosines": "Cosines of positive, negative and self pairs",
        "only_one_right": "Images that only one learner gets right, with the nearest neighbor by each learner",
        "negative_distances": "Distances of negative pairs within clusters and between clusters",
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
    """Draws the first metric of each learner alone, and of the first ones together (Figure 10 of Divide and Conquer).

    Args:
        learners: the result of `tfdml.evaluation.diversity`.
        path: the PNG to write.
    """
    metric = next(name for name in learners["first"][0] if name != "queries")
    alone, first = ([metrics[metric] for metrics in learners[kind]] for kind in ("alone", "first"))
    numbers = np.arange(len(alone))
    across = f"learner; correlation {learners['correlation']:.3f}"
    figure, axes = new_chart(across, metric.replace("recall_at_", "Recall@"))
    axes.bar(numbers, alone, color="#9ecae1", label="each learner alone")
    axes.plot(numbers, first, "o-", color="#d95f02", label="with all before it")
    axes.set_xticks(numbers)
    legend_above(axes)
    save_chart(figure, path)


def draw_negative_distances(distances: Mapping[str, Any], path: FilePath) -> None:
    """Draws distances of negative pairs, within clusters and between clusters (Figure 8 of Divide and Conquer).

    Args:
        distances: the result of `tfdml.evaluation.diversity.negative_distances`.
        path: the PNG to write.
    """
    names = {"within": "within clusters", "between": "between clusters"}
    _draw_shares(distances, names, "distance of negative pairs", path)


def draw_pair_cosines(cosines: Mapping[str, Any], path: FilePath) -> None:
    """Draws cosines of positive, negative and self pairs (Figure 5 of Attention-based Ensemble).

    Args:
        cosines: the result of `tfdml.evaluation.diversity.pair_cosines`.
        path: the PNG to write.
    """
    names = {"negative": "negative", "positive": "positive", "self": "self: an image, two learners"}
    _draw_shares(cosines, names, "cosine", path)


def _draw_shares(shares, names, across, path):
    figure, axes = new_chart(across, "share")
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
        order = np.random.default_rng(subject.experiment.settings.run.seed).permutation(len(retrieved.queries))
        chosen = []
        # Random queries whose nearest neighbor is right, then others.
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
    parts, rest = (np.asarray(pieces, np.float64) for pieces in model.places(images))
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
    colors = 255 * SIMILARITY_COLORS(0.5 + 0.5 * np.sign(spread) * np.abs(spread) ** 0.5)[..., :3]
    return Image.fromarray(np.round(gray * (1 - cover) + colors * cover).astype(np.uint8))


def resized(picture):
    """Returns a picture in the size that it has on the sheet."""
    return ImageOps.contain(Image.fromarray(picture), (SIDE, SIDE), Image.Resampling.BICUBIC)


# Title of each chart, to names of metrics, or the beginning of names, in the events of `metrics.jsonl`.
PANELS = {
    "Recall@K": ("evaluation", ("recall_at_",)),
    "MAP@R and R-precision": ("evaluation", ("map_at_r", "r_precision", "map")),
    "loss": ("train", ("loss",)),
    "distances in a batch": ("train", ("positive_distance", "negative_distance")),
    "share of anchors with a loss": ("train", ("active_anchors",)),
    "norm of the gradient": ("train", ("gradient_norm",)),
    "loss of each learner": ("learners", ("loss_of_learner_",)),
    "learning rate": ("train", ("learning_rate",)),
}
COLUMNS = 3


@register("picture", "training")
class Training(Picture):
    """Training curves."""

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

    Charts without any are left out.
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
    """Draws the curves of a run, which may still be going on, against steps.

    Args:
        events: list of the events of `metrics.jsonl`.
        path: the PNG to write.

    Returns:
        The number of charts; if it is 0, nothing is written.
    """
    charts = training_curves(events)
    if not charts:
        return 0
    rows = -(-len(charts) // COLUMNS)
    figure = Figure(figsize=(4 * COLUMNS, 3 * rows), dpi=100, layout="constrained")
    for place, (title, curves) in enumerate(charts.items(), 1):
        axes = figure.add_subplot(rows, COLUMNS, place)
        for number, (name, (steps, values)) in enumerate(curves.items()):
            # A single point would be no line.
            marker = "o" if len(steps) < 12 else None
            color, shown = COLORS[number % len(COLORS)], name.replace("recall_at_", "Recall@").replace("loss_of_", "")
            axes.plot(steps, values, color=color, label=shown.replace("_", " "), marker=marker, markersize=3)
        axes.set_title(title, fontsize=10)
        label(axes, "step", "")
        axes.set_ylim(bottom=min(0, *(min(values) for _, values in curves.values())))
        axes.grid(color="#eeeeee")
        if len(curves) > 1:
            axes.legend(frameon=False, fontsize=7)
    save_chart(figure, path)
    return len(charts)


# There are more rows than colors.
ROW_STYLES = ("-", "--", ":")


def draw_curves(run_dirs, path, metric="recall_at_1"):
    """Draws what rows reached while they trained: the mean over seeds, and each seed as a thin line.

    `run_dirs` is the name of a row to its run directories. Returns the names of the rows that have no curve, such as
    ensembles; None if there is nothing to draw.
    """
    # Inches, so that the names of many rows have a place, too.
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
        # Where a run has stopped early, the mean of all ends, too.
        common = sorted(set.intersection(*map(set, curves)))
        means = [statistics.mean(values[step] for values in curves) for step in common]
        axes.plot(common, means, style, color=color, label=name)
    if not axes.lines:
        return None
    label(axes, "step", metric.replace("recall_at_", "Recall@"))
    axes.grid(axis="y", alpha=0.3)
    figure.legend(loc="outside right upper", frameon=False, fontsize="small")
    figure.savefig(path)
    return not_drawn

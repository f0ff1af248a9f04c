"""Charts of decisions about pairs, and of Recall@K."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from tfdml.evaluation.diversity import PAIRS, learners_of, only_one_right, positive_pairs
from tfdml.evaluation.evaluate import unit_length
from tfdml.evaluation.metrics.pairs import RocAUC
from tfdml.evaluation.verification.pairs import ClassCounts, PairCounts, RetrievalPairs, best_matches, thresholds_of
from tfdml.evaluation.verification.thresholds import pair_intervals
from tfdml.registry import register
from tfdml.registry.arguments import Distance, Embeddings, FilePath, Labels
from tfdml.reporting.sheets import (
    COLORS,
    FRAME,
    RIGHT,
    WRONG,
    Picture,
    Sheet,
    Thumbnail,
    label,
    legend_above,
    new_chart,
    save_chart,
)
from tfdml.reporting.subject import looked_up
from tfdml.run.experiment.threshold import threshold_of


@register("picture", "class_thresholds")
class ClassThresholds(Picture):
    """The threshold that each class needs for the false accept rate of the fitted one, which is the line."""

    place = 57
    of = "runs whose threshold tfdml.threshold has fitted"

    def can_be_drawn(self, subject):
        return threshold_of(subject.run.path, distance=subject.distance) is not None

    def draw(self, subject, folder):
        fitted, pairs = threshold_of(subject.run.path, distance=subject.distance), subject.pairs
        if not all(pairs.counts.totals):
            return []
        path = folder / "class_thresholds.png"
        rate = fitted.fitted.get("far", fitted.fitted["false_accept_rate"])
        draw_class_thresholds(class_thresholds(pairs, rate), fitted.value, path, distance=subject.distance)
        return [path]


def class_thresholds(pairs: RetrievalPairs, rate: float) -> np.ndarray:
    """Returns for each class that has pairs with others the lowest threshold that accepts no more than a rate of these.

    Thresholds are some hundred, as of `thresholds_of`; where even the highest accepts more, it is that one.

    Args:
        pairs: `RetrievalPairs`.
        rate: the false accept rate.
    """
    counts = ClassCounts.of(pairs, thresholds_of(pairs.counts))
    known = counts.totals[1] > 0
    rates = counts.accepted()[1][known] / counts.totals[1][known, None]
    enough = rates <= rate * (1 + 1e-9)
    places = np.where(enough.any(axis=1), enough.argmax(axis=1), len(counts.thresholds) - 1)
    return counts.thresholds[places]


def draw_class_thresholds(
    thresholds: np.ndarray, common: float, path: FilePath, *, distance: Distance = "cosine"
) -> None:
    """Draws the thresholds of classes, ascending, and the common one.

    Args:
        thresholds: `[C]` similarities, or minus distances.
        common: that of all classes.
        path: the PNG to write.
        distance: `cosine`, or `euclidean` to draw distances.
    """
    sign, name = (-1, "Euclidean distance") if distance == "euclidean" else (1, "cosine")
    figure, axes = new_chart("classes, by their threshold", name)
    axes.plot(np.arange(1, 1 + len(thresholds)), np.sort(sign * thresholds), ".", color=COLORS[0], label="of one class")
    axes.axhline(sign * common, color="black", label="of all classes")
    axes.grid(color="#dddddd")
    legend_above(axes, columns=2)
    save_chart(figure, path)


# Points of a curve, and those of its intervals.
POINTS, INTERVALS = 400, 25
SAMPLES = 200


@register("picture", "roc")
class Roc(Picture):
    """True accept rate against false accept rate (ROC), over all pairs, with 95 % intervals over classes."""

    place = 55
    captions = {"det": "False reject rate against false accept rate (DET), with the same intervals."}

    def draw(self, subject, folder):
        counts = subject.pairs.counts
        if not all(counts.totals):
            return []
        paths, intervals = [folder / "roc.png", folder / "det.png"], roc_intervals(subject.pairs)
        draw_roc(counts, paths[0], intervals)
        draw_det(counts, paths[1], intervals)
        return paths


def draw_roc(counts: PairCounts, path: FilePath, intervals: Mapping[float, list[float]] | None = None) -> None:
    """Draws the true accept rate against the false accept rate, on a logarithmic axis.

    Args:
        counts: `PairCounts` with pairs of both kinds.
        path: the PNG to write.
        intervals: false accept rate to the interval of the true accept rate, see `roc_intervals`; None: none.
    """
    _draw(*error_rates(counts), "true accept rate", path, intervals or {})


def draw_det(counts: PairCounts, path: FilePath, intervals: Mapping[float, list[float]] | None = None) -> None:
    """Draws the false reject rate against the false accept rate, on logarithmic axes.

    Args:
        counts: `PairCounts` with pairs of both kinds.
        path: the PNG to write.
        intervals: as `draw_roc` takes them.
    """
    accepts, trues = error_rates(counts)
    rejected = trues < 1
    # A rate of 0 has no place on a logarithmic axis.
    axes_scale = {"yscale": "log"} if rejected.any() else {}
    turned = {rate: [1 - high, 1 - low] for rate, (low, high) in (intervals or {}).items() if high < 1}
    _draw(accepts[rejected], 1 - trues[rejected], "false reject rate", path, turned, **axes_scale)


def error_rates(counts: PairCounts) -> tuple[np.ndarray, np.ndarray]:
    """Returns false accept rates, on a logarithmic axis evenly apart from that of one pair, and true accept rates."""
    shown = np.geomspace(1 / counts.totals[1], 1, POINTS)
    return shown, counts.trues_at(shown)


def roc_intervals(pairs: RetrievalPairs) -> dict[float, list[float]]:
    """Returns false accept rates, and 95 % bootstrap intervals over classes of the true accept rate; {} of one class.

    Args:
        pairs: `RetrievalPairs` of both kinds.
    """
    if len(np.unique(pairs.task.labels[np.union1d(pairs.queries, pairs.gallery)])) < 2:
        return {}
    rates = np.geomspace(1 / pairs.counts.totals[1], 1, INTERVALS).tolist()
    functions = {rate: lambda counts, _, rate=rate: counts.trues_at(rate) for rate in rates}
    found = pair_intervals(pairs, functions, samples=SAMPLES)
    return {rate: interval for rate, interval in found.items() if interval is not None}


def _draw(across, up, name, path, intervals, **scales):
    figure, axes = new_chart("false accept rate", name)
    if intervals:
        axes.fill_between(list(intervals), *np.transpose(list(intervals.values())), color=COLORS[0], alpha=0.2)
    axes.plot(across, up, color=COLORS[0], linewidth=2)
    axes.set(xscale="log", **scales)
    axes.grid(color="#dddddd")
    save_chart(figure, path)


@register("picture", "rejection")
class Rejection(Picture):
    """Recall@1 of the queries that are answered, where those with the least similar neighbors are rejected."""

    place = 58

    def draw(self, subject, folder):
        own, others = best_matches(subject.pairs)
        if not own.any():
            # Nothing is right, as where pairs are given and classes are not known.
            return []
        nearest = subject.pairs.scores_of(np.maximum(own, others))
        fitted, path = threshold_of(subject.run.path, distance=subject.distance), folder / "rejection.png"
        draw_rejection(nearest, own > others, path, threshold=fitted and fitted.value)
        return [path]


def draw_rejection(nearest: np.ndarray, right: np.ndarray, path: FilePath, *, threshold: float | None = None) -> None:
    """Draws which part of the answers is right, for each part of the queries that is rejected.

    Args:
        nearest: `[Q]` similarity of the nearest neighbor of each query.
        right: `[Q]` booleans, whether it is of the query's class.
        path: the PNG to write.
        threshold: similarity from which a query is answered, marked in the chart; None: no mark.
    """
    rejected, shares = rejection_curve(nearest, right)
    figure, axes = new_chart("rejected queries", "right answers")
    axes.plot(rejected, shares, color=COLORS[0], linewidth=2)
    if threshold is not None and np.any(nearest >= threshold):
        place = np.mean(nearest < threshold)
        axes.plot(place, right[nearest >= threshold].mean(), "o", color="black")
        axes.annotate("threshold", (place, right[nearest >= threshold].mean()), (0, 8), textcoords="offset points")
    axes.set(xlim=(0, 1), ylim=(None, 1.02))
    axes.grid(color="#dddddd")
    save_chart(figure, path)


def rejection_curve(nearest: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns parts of the queries that are rejected, from 0 on, and which part of the others is right.

    Queries with equally similar neighbors are rejected together; the most similar ones never are.
    """
    order = np.argsort(nearest, kind="stable")
    ordered, right = np.asarray(nearest)[order], np.asarray(right, float)[order]
    starts = np.flatnonzero(np.append(True, np.diff(ordered) > 0))
    left = len(ordered) - starts
    return starts / len(ordered), np.cumsum(right[::-1])[::-1][starts] / left


BARS = 60


@register("picture", "similarities")
class Similarities(Picture):
    """Similarities of pairs of the same class and of different classes."""

    place = 50

    def draw(self, subject, folder):
        path = folder / "similarities.png"
        fitted = threshold_of(subject.run.path, distance=subject.distance)
        threshold = fitted and fitted.value
        draw_similarities(subject.embeddings, subject.test.labels, path, distance=subject.distance, threshold=threshold)
        return [path]


def draw_similarities(
    embeddings: Embeddings,
    labels: Labels,
    path: FilePath,
    *,
    distance: Distance = "cosine",
    seed: int = 0,
    threshold: float | None = None,
) -> None:
    """Draws histograms of the similarities of positive pairs and of negative pairs, and where they part.

    Args:
        embeddings: `[N, d]` array.
        labels: `[N]` class numbers.
        path: the PNG to write.
        distance: `cosine`, or `euclidean` to draw distances.
        seed: determines which pairs are drawn.
        threshold: similarity from which pairs are accepted, or minus the distance; None draws no line.
    """
    random, labels, euclidean = np.random.default_rng(seed), np.asarray(labels), distance == "euclidean"
    same = positive_pairs(labels, random)
    one, other = random.integers(0, len(labels), (2, 4 * PAIRS))
    apart = np.flatnonzero(labels[one] != labels[other])[:PAIRS]
    values = {}
    for kind, rows in {"same class": same, "different classes": (one[apart], other[apart])}.items():
        if len(rows[0]):
            first, second = (embeddings[places] for places in rows)
            if euclidean:
                values[kind] = np.linalg.norm(first - second, axis=1)
            else:
                values[kind] = np.sum(unit_length(first) * unit_length(second), axis=1)
    name = "Euclidean distance" if euclidean else "cosine"
    figure, axes = new_chart(name, "share of pairs")
    edges = np.histogram_bin_edges(np.concatenate(list(values.values())), BARS)
    for (kind, of_pairs), color in zip(values.items(), COLORS, strict=False):
        shares = np.histogram(of_pairs, edges)[0] / len(of_pairs)
        axes.stairs(shares, edges, fill=True, alpha=0.5, color=color, label=f"{kind}, mean {of_pairs.mean():.2f}")
    if len(values) == 2:
        similar = (-1 if euclidean else 1) * np.concatenate(list(values.values()))
        counts = PairCounts.of_scores(similar, np.arange(len(similar)) < len(values["same class"]))
        share = RocAUC().value(counts)
        axes.set_xlabel(f"{name}\n(of two such pairs, the one of the same class is more similar in {share:.1%})")
    if threshold is not None:
        axes.axvline(abs(threshold) if euclidean else threshold, color="black", label="threshold")
    legend_above(axes)
    save_chart(figure, path)


# Recall@K is drawn up to this K.
MOST_RANKS = 100
# Queries of each learner's curve.
MOST_QUERIES = 2000


@register("picture", "recall")
class Recall(Picture):
    """Recall@K against K."""

    place = 60

    def draw(self, subject, folder):
        path, count = folder / "recall.png", subject.learner_count
        ranks = recall_ranks(min(MOST_RANKS, len(subject.task.gallery) - 1))
        curves = {"all learners" if count > 1 else "the best model": (ranks, subject.retrieved.recall(ranks))}
        if count > 1:
            learners = learners_of(subject.embeddings, count)
            for k in range(count):
                alone = looked_up(learners[:, k], subject.task, 1, most=MOST_QUERIES)
                curves[f"learner {k}"] = (ranks, alone.recall(ranks))
        draw_recall(curves, path)
        return [path]


def recall_ranks(most: int) -> list[int]:
    """Returns the K to draw, up to `most`: on a logarithmic axis evenly apart, and the powers of 2."""
    most = max(int(most), 2)
    powers = 2 ** np.arange(int(np.log2(most)) + 1)
    return np.union1d(powers, np.unique(np.geomspace(1, most, 40).round().astype(int)))


def draw_recall(curves: Mapping[str, tuple[Sequence[int], Sequence[float]]], path: FilePath) -> None:
    """Draws curves of Recall@K on a logarithmic axis.

    Args:
        curves: name to `(ranks, recalls)`; the first one is drawn bold.
        path: the PNG to write.
    """
    figure, axes = new_chart("K", "Recall@K")
    for (name, (ranks, recalls)), color in zip(curves.items(), itertools.cycle(COLORS), strict=False):
        bold = {"linewidth": 1} if axes.lines else {"linewidth": 2.5, "zorder": 3}
        axes.plot(ranks, recalls, color=color, label=name, **bold)
    ranks = next(iter(curves.values()))[0]
    ticks = [2**power for power in range(int(np.log2(ranks[-1])) + 1)]
    axes.set_xscale("log")
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.grid(color="#dddddd")
    label(axes, "K", "Recall@K")
    legend_above(axes, columns=min(len(curves), 4))
    save_chart(figure, path)


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
            similarity = learners[:, k] @ learners[row, k]
            similarity[row] = -np.inf
            nearest = int(np.argmax(similarity))
            shown.append((nearest, RIGHT if labels[nearest] == labels[row] else WRONG))
        for column, (image, color) in enumerate(shown):
            sheet.picture(column * cell, HEAD + line * cell, thumbnail(image, side=SIDE), color)
    sheet.save(path)
    return len(rows)

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
    in_percent,
    label,
    legend_above,
    new_chart,
    save_chart,
)
from tfdml.reporting.subject import looked_up
from tfdml.run.experiment.threshold import threshold_of


@register("picture", "class_thresholds")
class ClassThresholds(Picture):
    """Threshold that each class needs for the false accept rate of the fitted threshold (line)."""

    place = 57
    of = "runs with a threshold from tfdml.threshold"

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
    """Returns the lowest threshold of each class that accepts at most a given rate of its pairs with other classes.

    Use it to see how far one common threshold is from what each class needs. Thresholds are chosen among a few hundred.
    If even the highest accepts more pairs, it is used.

    Args:
        pairs: `tfdml.evaluation.verification.pairs.RetrievalPairs`.
        rate: Float. The false accept rate.

    Returns:
        `[C]` thresholds of the classes that have pairs with others.

    Example:

    ```python
    from tfdml.evaluation.queries import RetrievalTask
    from tfdml.evaluation.verification.pairs import RetrievalPairs

    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    pairs = RetrievalPairs.of(embeddings, RetrievalTask.of([0, 0, 1, 1]))
    tfdml.reporting.class_thresholds(pairs, 0.25).shape  # (2,)
    ```
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
    """Draws the thresholds of classes in ascending order, and the common threshold as a line.

    Args:
        thresholds: `[C]` similarities, or minus distances, for example from `class_thresholds`.
        common: Float. The threshold for all classes.
        path: Path of the PNG file to write. Charts are also written as an SVG file next to it.
        distance: `"cosine"`, or `"euclidean"` to draw distances. Defaults to `"cosine"`.

    Example:

    ```python
    tfdml.reporting.draw_class_thresholds(np.array([0.4, 0.5, 0.8]), 0.55, "class_thresholds.png")
    ```
    """
    sign, name = (-1, "Euclidean distance") if distance == "euclidean" else (1, "cosine similarity")
    figure, axes = new_chart("classes, sorted by threshold", name)
    axes.plot(np.arange(1, 1 + len(thresholds)), np.sort(sign * thresholds), ".", color=COLORS[0], label="one class")
    axes.axhline(sign * common, color="black", label="all classes together")
    axes.grid(color="#dddddd")
    legend_above(axes, columns=2)
    save_chart(figure, path)


# Numbers of points of a curve, and of its confidence intervals.
POINTS, INTERVALS = 400, 25
SAMPLES = 200


@register("picture", "roc")
class Roc(Picture):
    """True accept rate by false accept rate (ROC) over all pairs, with 95% confidence intervals over classes."""

    place = 55
    captions = {"det": "False reject rate by false accept rate (DET), with 95% confidence intervals over classes"}

    def draw(self, subject, folder):
        counts = subject.pairs.counts
        if not all(counts.totals):
            return []
        paths, intervals = [folder / "roc.png", folder / "det.png"], roc_intervals(subject.pairs)
        draw_roc(counts, paths[0], intervals)
        draw_det(counts, paths[1], intervals)
        return paths


def draw_roc(counts: PairCounts, path: FilePath, intervals: Mapping[float, list[float]] | None = None) -> None:
    """Draws the true accept rate by the false accept rate (ROC curve), on a logarithmic axis.

    Args:
        counts: `tfdml.evaluation.verification.pairs.PairCounts` with pairs of both kinds.
        path: Path of the PNG file to write. Charts are also written as an SVG file next to it.
        intervals: Dictionary from false accept rate to the confidence interval of the true accept rate, for example
            from `roc_intervals`. If `None`, no intervals are drawn. Defaults to `None`.

    Example:

    ```python
    from tfdml.evaluation.verification.pairs import PairCounts

    counts = PairCounts.of_scores(np.array([0.9, 0.8, 0.4, 0.1]), np.array([True, True, False, False]))
    tfdml.reporting.draw_roc(counts, "roc.png")
    ```
    """
    _draw(*error_rates(counts), "true accept rate", path, intervals or {})


def draw_det(counts: PairCounts, path: FilePath, intervals: Mapping[float, list[float]] | None = None) -> None:
    """Draws the false reject rate by the false accept rate (DET curve), on logarithmic axes.

    Args:
        counts: `tfdml.evaluation.verification.pairs.PairCounts` with pairs of both kinds.
        path: Path of the PNG file to write. Charts are also written as an SVG file next to it.
        intervals: see `draw_roc`.

    Example:

    ```python
    from tfdml.evaluation.verification.pairs import PairCounts

    counts = PairCounts.of_scores(np.array([0.9, 0.3, 0.4, 0.1]), np.array([True, True, False, False]))
    tfdml.reporting.draw_det(counts, "det.png")
    ```
    """
    accepts, trues = error_rates(counts)
    rejected = trues < 1
    # A logarithmic axis cannot show a rate of 0.
    axes_scale = {"yscale": "log"} if rejected.any() else {}
    turned = {rate: [1 - high, 1 - low] for rate, (low, high) in (intervals or {}).items() if high < 1}
    _draw(accepts[rejected], 1 - trues[rejected], "false reject rate", path, turned, **axes_scale)


def error_rates(counts: PairCounts) -> tuple[np.ndarray, np.ndarray]:
    """Returns false accept rates, evenly spaced on a logarithmic axis from one pair on, and true accept rates."""
    shown = np.geomspace(1 / counts.totals[1], 1, POINTS)
    return shown, counts.trues_at(shown)


def roc_intervals(pairs: RetrievalPairs) -> dict[float, list[float]]:
    """Returns 95% bootstrap confidence intervals over classes of the true accept rate.

    Args:
        pairs: `tfdml.evaluation.verification.pairs.RetrievalPairs` of both kinds.

    Returns:
        Dictionary from false accept rate to `[low, high]`. It is empty if there is only one class.

    Example:

    ```python
    from tfdml.evaluation.queries import RetrievalTask
    from tfdml.evaluation.verification.pairs import RetrievalPairs

    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    pairs = RetrievalPairs.of(embeddings, RetrievalTask.of([0, 0, 1, 1]))
    tfdml.reporting.roc_intervals(pairs)[1.0]  # [1.0, 1.0]
    ```
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
    """Recall@1 of the queries that are answered if queries with dissimilar neighbors are rejected."""

    place = 58

    def draw(self, subject, folder):
        own, others = best_matches(subject.pairs)
        if not own.any():
            # No answer can be right, for example if explicit pairs are known but no classes.
            return []
        nearest = subject.pairs.scores_of(np.maximum(own, others))
        fitted, path = threshold_of(subject.run.path, distance=subject.distance), folder / "rejection.png"
        draw_rejection(nearest, own > others, path, threshold=fitted and fitted.value)
        return [path]


def draw_rejection(nearest: np.ndarray, right: np.ndarray, path: FilePath, *, threshold: float | None = None) -> None:
    """Draws which share of the answers is right, by the share of the queries that are rejected.

    Queries with the least similar nearest neighbor are rejected first.

    Args:
        nearest: `[Q]` similarity of each query's nearest neighbor.
        right: `[Q]` booleans, whether the nearest neighbor is of the query's class.
        path: Path of the PNG file to write. Charts are also written as an SVG file next to it.
        threshold: Float. Similarity from which on a query is answered, which is marked in the chart. If `None`, nothing
            is marked. Defaults to `None`.

    Example:

    ```python
    nearest, right = np.array([0.9, 0.8, 0.5, 0.4]), np.array([True, True, False, True])
    tfdml.reporting.draw_rejection(nearest, right, "rejection.png", threshold=0.6)
    ```
    """
    rejected, shares = rejection_curve(nearest, right)
    figure, axes = new_chart("share of queries that are rejected", "Recall@1 of the other queries")
    axes.plot(rejected, shares, color=COLORS[0], linewidth=2)
    if threshold is not None and np.any(nearest >= threshold):
        place = np.mean(nearest < threshold)
        axes.plot(place, right[nearest >= threshold].mean(), "o", color="black")
        axes.annotate("threshold", (place, right[nearest >= threshold].mean()), (0, 8), textcoords="offset points")
    axes.set(xlim=(0, 1), ylim=(None, 1.02))
    in_percent(axes.xaxis, axes.yaxis)
    axes.grid(color="#dddddd")
    save_chart(figure, path)


def rejection_curve(nearest: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns shares of the queries that are rejected, and the share of right answers among the others.

    Queries with equally similar neighbors are rejected together. The most similar queries are never rejected.

    Args:
        nearest: `[Q]` similarity of each query's nearest neighbor.
        right: `[Q]` booleans, whether the nearest neighbor is of the query's class.

    Returns:
        Two float arrays: shares of rejected queries, starting at 0, and shares of right answers.

    Example:

    ```python
    nearest, right = np.array([0.9, 0.8, 0.5, 0.4]), np.array([True, True, False, True])
    tfdml.reporting.rejection_curve(nearest, right)[1].round(2)  # [0.75 0.67 1.   1.  ]
    ```
    """
    order = np.argsort(nearest, kind="stable")
    ordered, right = np.asarray(nearest)[order], np.asarray(right, float)[order]
    starts = np.flatnonzero(np.append(True, np.diff(ordered) > 0))
    left = len(ordered) - starts
    return starts / len(ordered), np.cumsum(right[::-1])[::-1][starts] / left


BARS = 60


@register("picture", "similarities")
class Similarities(Picture):
    """Distribution of similarities for pairs of the same class and pairs of different classes."""

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
    """Draws histograms of the similarities of positive and of negative pairs, and how well they are separated.

    Args:
        embeddings: `[N, d]` array.
        labels: `[N]` integer class labels.
        path: Path of the PNG file to write. Charts are also written as an SVG file next to it.
        distance: `"cosine"`, or `"euclidean"` to draw distances. Defaults to `"cosine"`.
        seed: Integer. Determines which pairs are drawn. Defaults to `0`.
        threshold: Float. Similarity, or minus the distance, from which on pairs are accepted. If `None`, no line is
            drawn. Defaults to `None`.

    Example:

    ```python
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    tfdml.reporting.draw_similarities(embeddings, np.array([0, 0, 1, 1]), "similarities.png")
    ```
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
    name = "Euclidean distance" if euclidean else "cosine similarity"
    figure, axes = new_chart(name, "share of pairs")
    edges = np.histogram_bin_edges(np.concatenate(list(values.values())), BARS)
    for (kind, of_pairs), color in zip(values.items(), COLORS, strict=False):
        shares = np.histogram(of_pairs, edges)[0] / len(of_pairs)
        axes.stairs(shares, edges, fill=True, alpha=0.5, color=color, label=f"{kind}, mean {of_pairs.mean():.2f}")
    if len(values) == 2:
        similar = (-1 if euclidean else 1) * np.concatenate(list(values.values()))
        counts = PairCounts.of_scores(similar, np.arange(len(similar)) < len(values["same class"]))
        share = RocAUC().value(counts)
        axes.set_xlabel(f"{name}\n(same-class pairs are more similar in {share:.1%} of comparisons)")
    if threshold is not None:
        axes.axvline(abs(threshold) if euclidean else threshold, color="black", label="threshold")
    legend_above(axes)
    save_chart(figure, path)


# Largest K for which Recall@K is drawn.
MOST_RANKS = 100
# Largest number of queries for each learner's curve.
MOST_QUERIES = 2000


@register("picture", "recall")
class Recall(Picture):
    """Recall@K by K: share of the queries with an image of their class among the K nearest."""

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
    """Returns values of K at which to draw Recall@K on a logarithmic axis.

    These are the powers of 2, and values that are evenly spaced on the axis.

    Args:
        most: Integer. The largest K.

    Returns:
        Ascending integers, starting at 1.

    Example:

    ```python
    tfdml.reporting.recall_ranks(8).tolist()  # [1, 2, 3, 4, 5, 6, 7, 8]
    ```
    """
    most = max(int(most), 2)
    powers = 2 ** np.arange(int(np.log2(most)) + 1)
    return np.union1d(powers, np.unique(np.geomspace(1, most, 40).round().astype(int)))


def draw_recall(curves: Mapping[str, tuple[Sequence[int], Sequence[float]]], path: FilePath) -> None:
    """Draws curves of Recall@K by K, on a logarithmic axis.

    Args:
        curves: Dictionary from name to `(ranks, recalls)`. The first curve is bold.
        path: Path of the PNG file to write. Charts are also written as an SVG file next to it.

    Example:

    ```python
    tfdml.reporting.draw_recall({"triplet": ([1, 2, 4], [0.5, 0.7, 0.9])}, "recall.png")
    ```
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
    in_percent(axes.yaxis)
    axes.grid(color="#dddddd")
    label(axes, "K", "Recall@K")
    legend_above(axes, columns=min(len(curves), 4))
    save_chart(figure, path)


# Sizes on the sheet, in pixels.
SIDE, GAP, HEAD = 72, 8, 18


def draw_only_one_right(
    embeddings: Embeddings, labels: Labels, count: int, thumbnail: Thumbnail, path: FilePath, *, of_each: int = 3
) -> int:
    """Draws images that only one learner gets right, each with the nearest neighbor that each learner finds.

    Neighbors of the image's class have a green frame, others a red frame (Figure 9 of Divide and Conquer).

    Args:
        embeddings: `[N, K * d]` array, the concatenated embeddings of the learners.
        labels: `[N]` integer class labels.
        count: Integer. The number K of learners.
        thumbnail: Function of a row and `side` that returns the image of the row, uint8 `[side, side, 3]`.
        path: Path of the PNG file to write.
        of_each: Integer. Largest number of images per learner. Defaults to `3`.

    Returns:
        The number of images on the sheet. If it is 0, nothing is written.

    Example:

    ```python
    def thumbnail(row, side):
        return np.full((side, side, 3), 60 * row, "uint8")

    embeddings = np.array([[1, 0, 1, 0], [0.8, 0.6, 1, 0], [0, 1, 0, 1], [0.6, 0.8, 0, 1]], "float32")
    tfdml.reporting.draw_only_one_right(embeddings, np.array([0, 0, 1, 1]), 2, thumbnail, "only_one.png")  # 0
    ```
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

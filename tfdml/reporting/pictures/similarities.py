"""Draws how similar images of the same class are, and images of different classes."""

import numpy as np

from tfdml.evaluation.diversity import PAIRS, positive_pairs
from tfdml.evaluation.evaluate import unit_length
from tfdml.registry import register
from tfdml.registry.arguments import Distance, Embeddings, FilePath, Labels
from tfdml.reporting.chart import COLORS, legend_above, new_chart, save_chart
from tfdml.reporting.picture import Picture
from tfdml.run.experiment.threshold import threshold_of

BARS = 60


@register("picture", "similarities")
class Similarities(Picture):
    """Similarities of pairs of the same class and of different classes."""

    place = 50

    def draw(self, subject, folder):
        path = folder / "similarities.png"
        fitted = threshold_of(subject.run.path, distance=subject.distance)
        threshold = fitted and fitted["threshold"]
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
    random, labels = np.random.default_rng(seed), np.asarray(labels)
    pairs = {"same class": positive_pairs(labels, random), "different classes": _negatives(labels, random)}
    values = {kind: _compared(embeddings, *rows, distance) for kind, rows in pairs.items() if len(rows[0])}
    figure, axes = new_chart("Euclidean distance" if distance == "euclidean" else "cosine", "share of pairs")
    edges = np.histogram_bin_edges(np.concatenate(list(values.values())), BARS)
    for (kind, each), color in zip(values.items(), COLORS, strict=False):
        shares = np.histogram(each, edges)[0] / len(each)
        axes.stairs(shares, edges, fill=True, alpha=0.5, color=color, label=f"{kind}, mean {each.mean():.2f}")
    if len(values) == 2:
        sign = -1 if distance == "euclidean" else 1
        share = share_above(sign * values["same class"], sign * values["different classes"])
        across = axes.get_xlabel()
        axes.set_xlabel(f"{across}\n(of two such pairs, the one of the same class is more similar in {share:.1%})")
    if threshold is not None:
        axes.axvline(abs(threshold) if distance == "euclidean" else threshold, color="black", label="threshold")
    legend_above(axes)
    save_chart(figure, path)


def share_above(first, second):
    """Returns how often a value of the first is above one of the second; ties count half (the area under the ROC)."""
    ordered = np.sort(second)
    below, up_to = np.searchsorted(ordered, first, "left"), np.searchsorted(ordered, first, "right")
    return float(np.mean(below + up_to) / 2 / len(second))


def _negatives(labels, random):
    one, other = random.integers(0, len(labels), (2, 4 * PAIRS))
    apart = np.flatnonzero(labels[one] != labels[other])[:PAIRS]
    return one[apart], other[apart]


def _compared(embeddings, one, other, distance):
    first, second = embeddings[one], embeddings[other]
    if distance == "euclidean":
        return np.linalg.norm(first - second, axis=1)
    return np.sum(unit_length(first) * unit_length(second), axis=1)

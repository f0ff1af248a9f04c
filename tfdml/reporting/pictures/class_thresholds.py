"""Draws how different the thresholds are that classes need for one false accept rate."""

import numpy as np

from tfdml.evaluation.verification.pairs import ClassCounts, Pairs, thresholds_of
from tfdml.registry import register
from tfdml.registry.arguments import Distance, FilePath
from tfdml.reporting.chart import COLORS, legend_above, new_chart, save_chart
from tfdml.reporting.picture import Picture
from tfdml.run.experiment.threshold import threshold_of


@register("picture", "class_thresholds")
class ClassThresholds(Picture):
    """The threshold that each class needs for the false accept rate of the fitted one, which is the line."""

    place = 57
    of = "runs whose threshold tfdml.threshold has fitted"

    def can_be_drawn(self, subject):
        return self._fitted(subject) is not None

    def draw(self, subject, folder):
        fitted, pairs = self._fitted(subject), subject.pairs
        if not all(pairs.counts.totals):
            return []
        path = folder / "class_thresholds.png"
        rate = fitted.get("far", fitted["false_accept_rate"])
        draw_class_thresholds(class_thresholds(pairs, rate), fitted["threshold"], path, distance=subject.distance)
        return [path]

    def _fitted(self, subject):
        return threshold_of(subject.run.path, distance=subject.distance)


def class_thresholds(pairs: Pairs, rate: float) -> np.ndarray:
    """Returns for each class that has pairs with others the lowest threshold that accepts no more than a rate of these.

    Thresholds are some hundred, as of `thresholds_of`; where even the highest accepts more, it is that one.

    Args:
        pairs: `Pairs`.
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

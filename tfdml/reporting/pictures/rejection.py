"""Draws what is won where queries without a similar neighbor get no answer."""

import numpy as np

from tfdml.evaluation.verification.pairs import best_matches
from tfdml.registry import register
from tfdml.registry.arguments import FilePath
from tfdml.reporting.chart import COLORS, new_chart, save_chart
from tfdml.reporting.picture import Picture
from tfdml.run.experiment.threshold import threshold_of


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
        draw_rejection(nearest, own > others, path, threshold=fitted and fitted["threshold"])
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

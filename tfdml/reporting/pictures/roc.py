"""Draws at which rates a threshold of similarity errs."""

from collections.abc import Mapping

import numpy as np

from tfdml.evaluation.verification.pairs import PairCounts, Pairs
from tfdml.evaluation.verification.thresholds import intervals_of, resampled_pairs
from tfdml.registry import register
from tfdml.registry.arguments import FilePath
from tfdml.reporting.chart import COLORS, new_chart, save_chart
from tfdml.reporting.picture import Picture

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


def roc_intervals(pairs: Pairs) -> dict[float, list[float]]:
    """Returns false accept rates, and 95 % bootstrap intervals over classes of the true accept rate; {} of one class.

    Args:
        pairs: `Pairs` of both kinds.
    """
    if len(np.unique(pairs.task.labels[np.union1d(pairs.queries, pairs.gallery)])) < 2:
        return {}
    rates = np.geomspace(1 / pairs.counts.totals[1], 1, INTERVALS).tolist()
    functions = {rate: lambda counts, _, rate=rate: counts.trues_at(rate) for rate in rates}
    found = intervals_of(resampled_pairs(pairs, functions, samples=SAMPLES))
    return {rate: interval for rate, interval in found.items() if interval is not None}


def _draw(across, up, name, path, intervals, **scales):
    figure, axes = new_chart("false accept rate", name)
    if intervals:
        axes.fill_between(list(intervals), *np.transpose(list(intervals.values())), color=COLORS[0], alpha=0.2)
    axes.plot(across, up, color=COLORS[0], linewidth=2)
    axes.set(xscale="log", **scales)
    axes.grid(color="#dddddd")
    save_chart(figure, path)

"""Draws at which rates a threshold of similarity errs."""

import numpy as np

from tfdml.evaluation.verification.pair_counts import PairCounts
from tfdml.evaluation.verification.pairs import Pairs
from tfdml.registry import register
from tfdml.registry.annotations import FilePath
from tfdml.reporting.chart import COLORS, new_chart, save_chart
from tfdml.reporting.picture import Picture

# Points of a curve.
POINTS = 400


@register("picture", "roc")
class Roc(Picture):
    """True accept rate against false accept rate (ROC), over all pairs."""

    place = 55
    captions = {"det": "False reject rate against false accept rate (DET), over all pairs."}

    def draw(self, subject, folder):
        counts = Pairs.of(subject.embeddings, subject.search, subject.distance).counts
        if not all(counts.totals):
            return []
        paths = [folder / "roc.png", folder / "det.png"]
        draw_roc(counts, paths[0])
        draw_det(counts, paths[1])
        return paths


def draw_roc(counts: PairCounts, path: FilePath) -> None:
    """Draws the true accept rate against the false accept rate, on a logarithmic axis.

    Args:
        counts: `PairCounts` with pairs of both kinds.
        path: the PNG to write.
    """
    _draw(*error_rates(counts), "true accept rate", path)


def draw_det(counts: PairCounts, path: FilePath) -> None:
    """Draws the false reject rate against the false accept rate, on logarithmic axes.

    Args:
        counts: `PairCounts` with pairs of both kinds.
        path: the PNG to write.
    """
    accepts, trues = error_rates(counts)
    rejected = trues < 1
    # A rate of 0 has no place on a logarithmic axis.
    axes_scale = {"yscale": "log"} if rejected.any() else {}
    _draw(accepts[rejected], 1 - trues[rejected], "false reject rate", path, **axes_scale)


def error_rates(counts: PairCounts) -> tuple[np.ndarray, np.ndarray]:
    """Returns false accept rates, on a logarithmic axis evenly apart from that of one pair, and true accept rates."""
    accepts, trues = counts.rates
    shown = np.geomspace(1 / counts.totals[1], 1, POINTS)
    return shown, trues[np.searchsorted(accepts, shown * (1 + 1e-9), side="right") - 1]


def _draw(across, up, name, path, **scales):
    figure, axes = new_chart("false accept rate", name)
    axes.plot(across, up, color=COLORS[0], linewidth=2)
    axes.set(xscale="log", **scales)
    axes.grid(color="#dddddd")
    save_chart(figure, path)

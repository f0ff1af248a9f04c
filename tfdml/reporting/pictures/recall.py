"""Draws Recall@K against K."""

from collections.abc import Mapping, Sequence

import numpy as np

from tfdml.evaluation.diversity import learners_of
from tfdml.registry import register
from tfdml.registry.arguments import FilePath
from tfdml.reporting.chart import COLORS, label, legend_above, new_chart, save_chart
from tfdml.reporting.picture import Picture
from tfdml.reporting.subject import looked_up

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
    for place, ((name, (ranks, recalls)), color) in enumerate(zip(curves.items(), _colors(), strict=False)):
        bold = {"linewidth": 2.5, "zorder": 3} if place == 0 else {"linewidth": 1}
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


def _colors():
    while True:
        yield from COLORS

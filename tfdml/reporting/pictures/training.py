"""Draws what was measured during training."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from tfdml.registry import register
from tfdml.registry.arguments import FilePath
from tfdml.reporting.chart import COLORS, label, save_chart
from tfdml.reporting.picture import Picture

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
    """Returns the curves of a run: title of a chart to name to `(steps, values)`; charts without any are left out.

    Args:
        events: list of the events of `metrics.jsonl`.
    """
    found = {}
    for title, (event, wanted) in PANELS.items():
        curves = {}
        for each in events:
            for name, value in each.items() if each.get("event") == event else ():
                if isinstance(value, float | int) and _is(name, wanted):
                    steps, values = curves.setdefault(name, ([], []))
                    steps.append(each["step"])
                    values.append(value)
        if curves:
            found[title] = curves
    return found


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
            color = COLORS[number % len(COLORS)]
            axes.plot(steps, values, color=color, label=_shown(name), marker=marker, markersize=3)
        axes.set_title(title, fontsize=10)
        label(axes, "step", "")
        axes.set_ylim(bottom=min(0, *(min(values) for _, values in curves.values())))
        axes.grid(color="#eeeeee")
        if len(curves) > 1:
            axes.legend(frameon=False, fontsize=7)
    save_chart(figure, path)
    return len(charts)


def _is(name, wanted):
    return any(name == each or each.endswith("_") and name.startswith(each) for each in wanted)


def _shown(name):
    return name.replace("recall_at_", "Recall@").replace("loss_of_", "").replace("_", " ")

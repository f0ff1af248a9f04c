"""Draws learning curves of a study's rows."""

import statistics

from matplotlib import colormaps
from matplotlib.figure import Figure

from tfdml.reporting.sheets import label
from tfdml.run.study.runs import curve

# There are more rows than colors.
STYLES = ("-", "--", ":")


def draw_curves(run_dirs, path, metric="recall_at_1"):
    """Draws what rows reached while they trained: the mean over seeds, and each seed as a thin line.

    Args:
        run_dirs: name of the row to its run directories.
        path: image file to write, such as `curves.svg`.
        metric: name of the metric, as `metrics.jsonl` has it.

    Returns:
        Names of the rows that have no curve, such as ensembles; if there is nothing to draw, `None`.
    """
    # Inches, so that the names of many rows have a place, too.
    height = max(5.0, 0.2 * len(run_dirs))
    figure = Figure(figsize=(8, height), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    colors, not_drawn = colormaps["tab20"].colors, []
    for place, (name, several) in enumerate(run_dirs.items()):
        color, style = colors[place % len(colors)], STYLES[place // len(colors) % len(STYLES)]
        curves = [found for found in (curve(run_dir, metric) for run_dir in several) if found]
        if not curves:
            not_drawn.append(name)
            continue
        for values in curves:
            axes.plot(values.keys(), values.values(), color=color, linewidth=0.5, alpha=0.5)
        # Where a run has stopped early, the mean of all ends, too.
        common = sorted(set.intersection(*map(set, curves)))
        axes.plot(
            common,
            [statistics.mean(values[step] for values in curves) for step in common],
            style,
            color=color,
            label=name,
        )
    if not axes.lines:
        return None
    label(axes, "step", metric.replace("recall_at_", "Recall@"))
    axes.grid(axis="y", alpha=0.3)
    figure.legend(loc="outside right upper", frameon=False, fontsize="small")
    figure.savefig(path)
    return not_drawn

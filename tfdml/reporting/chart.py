"""The parts that charts have in common."""

from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from tfdml.files.checked import vacated

# Of lines and bars, told apart by people who are color-blind.
COLORS = ("#3182bd", "#d95f02", "#2ca25f", "#756bb1", "#636363", "#e7298a", "#a6761d", "#66a61e")


def new_chart(across, up):
    """Returns a figure and its axes.

    Args:
        across, up: names of the axes.
    """
    figure = Figure(figsize=(6, 4), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    label(axes, across, up)
    return figure, axes


def label(axes, across, up):
    """Names the two axes, and leaves out the frame on the other sides."""
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.spines[["top", "right"]].set_visible(False)


def legend_above(axes, columns=1):
    """Writes the legend where no bar is in its way."""
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False, ncols=columns)


def save_chart(figure, path):
    """Writes a chart as PNG and, beside it, as SVG.

    Args:
        figure: the figure.
        path: the PNG to write.
    """
    figure.savefig(vacated(path))
    # The same chart gives the same file.
    with matplotlib.rc_context({"svg.hashsalt": "tfdml"}):
        figure.savefig(vacated(Path(path).with_suffix(".svg")), metadata={"Date": None})

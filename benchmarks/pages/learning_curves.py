"""Learning curves of a few rows, which differ in their dashes and in the letters at their ends."""

import statistics
import textwrap

from benchmarks.pages.svg import WIDTH, line, path, svg, text, ticks
from tfdml.run.study.runs import curve

LEFT, TOP, BOTTOM, HEIGHT, NAMES = 40, 12, 40, 300, 12
# Characters of a name that fit on a line.
ROOM = 48
APART = 12
DASHES = ("", "7 4", "2 3", "12 3 2 3", "1 5", "14 6")


def learning_curves(title, run_dirs, metric="recall_at_1"):
    """Returns the SVG of the mean curves of rows, with a legend below.

    Args:
        title: Title of the picture.
        run_dirs: Dictionary from the name of a row to its run directories, with at most six rows.
        metric: Metric of the curves, a fraction.
    """
    if len(run_dirs) > len(DASHES):
        raise ValueError(f"A picture has at most {len(DASHES)} curves. Received: {len(run_dirs)} curves.")
    curves = {name: _mean([curve(path, metric) for path in paths]) for name, paths in run_dirs.items()}
    values = [value for points in curves.values() for _, value in points]
    marks, steps = ticks(min(values), max(values)), ticks(0, max(points[-1][0] for points in curves.values()), 5)
    bottom = HEIGHT - BOTTOM

    def across(step):
        return LEFT + (WIDTH - 24 - LEFT) * step / steps[-1]

    def down(value):
        return bottom - (bottom - TOP) * (value - marks[0]) / (marks[-1] - marks[0])

    parts = [line(LEFT, down(mark), WIDTH - 24, down(mark), "grid") for mark in marks]
    parts += [text(LEFT - 6, down(mark) + 4, f"{mark:g}", "small", "end") for mark in marks]
    parts += [text(across(step), bottom + 18, f"{step:,}", "small", "middle") for step in steps]
    parts.append(text(WIDTH / 2, bottom + 34, "training steps", "small", "soft", "middle"))
    ends = _apart([down(points[-1][1]) for points in curves.values()])
    for number, (points, dashes) in enumerate(zip(curves.values(), DASHES, strict=False)):
        parts.append(path([(across(step), down(value)) for step, value in points], dashes))
        parts.append(_letter(number, across(points[-1][0]), ends[number]))
    y = HEIGHT + 14
    for number, (name, dashes) in enumerate(zip(curves, DASHES, strict=False)):
        parts += [path([(NAMES, y), (NAMES + 46, y)], dashes), _letter(number, NAMES + 46, y)]
        lines = textwrap.wrap(name, ROOM)
        parts += [text(NAMES + 66, y + 5 + 16 * place, each, "small") for place, each in enumerate(lines)]
        y += 22 + 16 * (len(lines) - 1)
    return svg(y, title, parts)


def _apart(heights):
    """Moves the heights of letters so that no two overlap."""
    found, last = {}, -APART
    for place in sorted(range(len(heights)), key=heights.__getitem__):
        last = max(heights[place], last + APART)
        found[place] = last
    return [found[place] for place in range(len(heights))]


def _letter(number, x, y):
    """Draws the letter of a curve next to its end."""
    return text(x + 5, y + 5, "ABCDEF"[number], "small", "head")


def _mean(curves):
    """Returns the mean of several curves, in percent, at the steps that all of them have."""
    common = sorted(set.intersection(*map(set, curves)))
    return [(step, 100 * statistics.mean(values[step] for values in curves)) for step in common]

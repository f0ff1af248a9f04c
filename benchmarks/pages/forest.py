"""Forest plots: a line for each difference, with its 95% confidence interval."""

import textwrap

from benchmarks.pages.claims import text_of
from benchmarks.pages.svg import WIDTH, dot, line, svg, text, ticks

LEFT, RIGHT = 16, WIDTH - 16
# Characters of a label that fit next to the numbers.
ROOM = 34
LINE, BAR, HEAD = 18, 20, 34


def forest(title, entries):
    """Returns the SVG of a forest plot.

    Args:
        title: Title of the picture.
        entries: List of pairs of a label and a `Difference`. The label is a heading if the second value is None.
    """
    found = [difference for _, difference in entries if difference]
    marks = ticks(min(0, *(each.low for each in found)), max(0, *(each.high for each in found)))

    def at(value):
        return LEFT + (RIGHT - LEFT) * (value - marks[0]) / (marks[-1] - marks[0])

    parts, y = [], 4.0
    for label, difference in entries:
        more, y = _heading(label, y) if difference is None else _entry(label, difference, y, at)
        parts += more
    grid = [line(at(mark), 8, at(mark), y + 8, "grid" if mark else "zero") for mark in marks]
    numbers = [text(at(mark), y + 24, f"{mark:+g}" if mark else "0", "small", "middle") for mark in marks]
    below = "Difference in Recall@1 (points). Filled: significant."
    numbers.append(text(WIDTH / 2, y + 40, below, "small", "soft", "middle"))
    return svg(y + 50, title, [*grid, *parts, *numbers])


def _heading(label, y):
    return [text(LEFT, y + HEAD - 10, label, "head")], y + HEAD


def _entry(label, difference, y, at):
    words = textwrap.wrap(label, ROOM)
    parts = [text(LEFT, y + LINE * (number + 1) - 3, each) for number, each in enumerate(words)]
    parts.append(text(RIGHT, y + LINE - 3, text_of(difference), "end", "small"))
    middle = y + LINE * len(words) + BAR / 2 - 2
    parts.append(line(at(difference.low), middle, at(difference.high), middle))
    parts.append(dot(at(difference.mean), middle, difference.is_significant))
    return parts, middle + BAR / 2 + 2

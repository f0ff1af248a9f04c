"""Bar charts of percentages, in groups."""

from benchmarks.pages.svg import WIDTH, dot, line, svg, text

LEFT, RIGHT, MIDDLE = 16, WIDTH - 16, 160
ROW, HEAD = 18, 30


def levels(title, groups):
    """Returns the SVG of a bar chart of percentages.

    Args:
        title: Title of the picture.
        groups: Dictionary from the name of a group to its percentages, as texts by label. Empty texts have no bar.
    """
    parts, y = [], 4.0
    for name, values in groups.items():
        parts.append(text(LEFT, y + HEAD - 12, name, "head"))
        y += HEAD
        for label, value in values.items():
            if value:
                parts += _bar(label, value, y + ROW / 2)
                y += ROW
    return svg(y + 8, title, parts)


def _bar(label, value, y):
    end = MIDDLE + (RIGHT - 50 - MIDDLE) * float(value) / 100
    return [
        text(LEFT, y + 5, label),
        line(MIDDLE, y, end, y),
        dot(end, y, True),
        text(RIGHT, y + 5, value, "end", "small"),
    ]

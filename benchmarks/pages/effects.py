"""Summarizes the effects that the papers claim in one picture and one table."""

from benchmarks.markdown import markdown
from benchmarks.pages.catalog import SOURCES
from benchmarks.pages.claims import difference_of, text_of
from benchmarks.pages.links import link_of
from benchmarks.pages.papers import PAPERS, SETS
from benchmarks.pages.svg import WIDTH, arrow, dot, line, square, svg, text

LEFT, GAP = 16, 16
# Percentage points at the ends of each axis. A line that goes farther ends in an arrow.
MOST = 16
HEAD, ROW = 46, 42
# Stands in cells without a result.
NONE = "–"
TITLE = (
    "The papers' effects: measured difference in Recall@1, in percentage points, with 95% confidence intervals. Filled "
    "marks are confirmed effects, squares are results of one seed."
)


def found_by(recorded_of):
    """Returns a dictionary from each paper to pairs of an effect and its differences, without effects that no page has.

    Args:
        recorded_of: Function from the name of a source to its `Recorded` study.
    """
    return {
        paper: [(effect, found) for effect in effects if (found := differences_of(effect.shown, recorded_of))]
        for paper, effects in PAPERS.items()
    }


def differences_of(shown, recorded_of):
    """Returns a dictionary from each dataset to the `Difference` that was measured on it.

    Args:
        shown: Dictionary from a dataset to a source and a text `A minus B`.
        recorded_of: Function from the name of a source to its `Recorded` study.
    """
    return {each: difference_of(recorded_of(source), pair) for each, (source, pair) in shown.items()}


def has_one_seed(shown, name):
    """Returns whether the source of a difference on a dataset has one seed."""
    source, _ = shown[name]
    return len(SOURCES[source].seeds) == 1


def picture(found):
    """Returns the SVG of what `found_by` returns, with a row for each effect and a column for each dataset."""
    wide = (WIDTH - 2 * LEFT - GAP * (len(SETS) - 1)) / len(SETS)
    middles = [LEFT + number * (wide + GAP) + wide / 2 for number in range(len(SETS))]
    parts, y = [], 4.0
    for paper, effects in found.items():
        parts.append(text(LEFT, y + 20, paper, "head"))
        for middle, name in zip(middles, SETS.values(), strict=True):
            parts.append(text(middle, y + 38, name, "small", "soft", "middle"))
        y += HEAD
        for effect, differences in effects:
            parts.append(text(LEFT, y + 14, effect.text))
            for middle, name in zip(middles, SETS, strict=True):
                mark = square if name in differences and has_one_seed(effect.shown, name) else dot
                parts += _cell(middle, wide / 2, y + 28, differences.get(name), mark)
            y += ROW
    return svg(y + 4, TITLE, parts)


def table(found):
    """Returns the Markdown table of what `found_by` returns, in which each number links to its page."""
    rows = []
    for paper, effects in found.items():
        for effect, differences in effects:
            rows.append([paper, effect.text, effect.printed or NONE, *linked(effect.shown, differences)])
    return markdown(["Paper", "Effect", "Reported by the paper", *SETS.values()], rows)


def linked(shown, differences):
    """Returns the cells of a row: for each dataset the difference as a link to its page, or a dash."""
    return [_link(shown, name, differences[name]) if name in differences else NONE for name in SETS]


def _link(shown, name, difference):
    """Returns a difference as a link, in italics if it is the result of one seed."""
    mark = "*" if has_one_seed(shown, name) else ""
    return f"[{mark}{text_of(difference)}{mark}]({link_of(*shown[name])})"


def _cell(zero, half, y, difference, mark):
    """Draws the axis of a dataset, and on it the difference as a mark and a line."""
    left, right = zero - half, zero + half
    if difference is None:
        return [text(zero, y + 4, "not measured", "small", "soft", "middle")]
    parts = [line(left, y, right, y, "grid"), line(zero, y - 7, zero, y + 7, "zero")]

    def at(value):
        return zero + half * max(-MOST, min(MOST, value)) / MOST

    parts.append(line(at(difference.low), y, at(difference.high), y))
    parts += [arrow(right, y, 1)] * (difference.high > MOST) + [arrow(left, y, -1)] * (difference.low < -MOST)
    if abs(difference.mean) <= MOST:
        parts.append(mark(at(difference.mean), y, difference.is_seen))
    return parts

"""The papers' effects as one picture and one table."""

from benchmarks.markdown import markdown
from benchmarks.pages.claims import difference_of, text_of
from benchmarks.pages.papers import PAPERS, SETS
from benchmarks.pages.svg import WIDTH, arrow, dot, line, svg, text

LEFT, GAP = 16, 16
COLUMN = (WIDTH - 2 * LEFT - GAP * (len(SETS) - 1)) / len(SETS)
# Points at the ends of each axis; what is farther has an arrow.
MOST = 16
HEAD, ROW = 46, 42
TITLE = "The papers' effects on three sets: points of Recall@1 with 95 % intervals, full where seen."


def found_by(recorded_of):
    """Returns the differences of all effects: paper to pairs of the effect and of set to `Difference`.

    Args:
        recorded_of: function of a page's name that gives its `Recorded` study.
    """
    return {
        paper: [
            (effect, {each: difference_of(recorded_of(page), pair) for each, (page, pair) in effect.shown.items()})
            for effect in effects
        ]
        for paper, effects in PAPERS.items()
    }


def picture(found):
    """Returns the SVG of what `found_by` returns: a row for each effect, a column for each set."""
    parts, y = [], 4.0
    for paper, effects in found.items():
        parts.append(text(LEFT, y + 20, paper, "head"))
        for number, name in enumerate(SETS.values()):
            parts.append(text(_middle(number), y + 38, name, "small", "soft", "middle"))
        y += HEAD
        for effect, differences in effects:
            parts.append(text(LEFT, y + 14, effect.text))
            for number, name in enumerate(SETS):
                parts += _cell(number, y + 28, differences.get(name))
            y += ROW
    return svg(y + 4, TITLE, parts)


def table(found):
    """Returns the Markdown table of what `found_by` returns, with a link from each number to its page."""
    rows = []
    for paper, effects in found.items():
        for effect, differences in effects:
            cells = [
                f"[{text_of(differences[name])}]({effect.shown[name][0]}.md)" if name in differences else ""
                for name in SETS
            ]
            rows.append([f"{paper}: {effect.text[0].lower()}{effect.text[1:]}", effect.printed, *cells])
    return markdown(["effect", "in the paper", *SETS.values()], rows)


def _middle(number):
    return LEFT + number * (COLUMN + GAP) + COLUMN / 2


def _cell(number, y, difference):
    """The axis of a set, and on it the difference."""
    left, right, zero = (_middle(number) + side * COLUMN / 2 for side in (-1, 1, 0))
    if difference is None:
        return [text(zero, y + 4, "no records", "small", "soft", "middle")]
    parts = [line(left, y, right, y, "grid"), line(zero, y - 7, zero, y + 7, "zero")]

    def at(value):
        return zero + COLUMN / 2 * max(-MOST, min(MOST, value)) / MOST

    parts.append(line(at(difference.low), y, at(difference.high), y))
    parts += [arrow(right, y, 1)] * (difference.high > MOST) + [arrow(left, y, -1)] * (difference.low < -MOST)
    if abs(difference.mean) <= MOST:
        parts.append(dot(at(difference.mean), y, difference.is_seen))
    return parts

"""The papers' effects as one picture and one table."""

from benchmarks.markdown import markdown
from benchmarks.pages.catalog import PAGES
from benchmarks.pages.claims import difference_of, text_of
from benchmarks.pages.papers import PAPERS, SETS
from benchmarks.pages.svg import WIDTH, arrow, dot, line, square, svg, text

LEFT, GAP = 16, 16
# Points at the ends of each axis; what is farther has an arrow.
MOST = 16
HEAD, ROW = 46, 42
TITLE = "The papers' effects: points of Recall@1 with 95 % intervals, full where seen, square of one seed."


def found_by(recorded_of):
    """Returns the differences of all effects: paper to pairs of the effect and of set to `Difference`.

    Effects that no page shows yet are left out.

    Args:
        recorded_of: function of a page's name that gives its `Recorded` study.
    """
    return {
        paper: [(effect, found) for effect in effects if (found := differences_of(effect.shown, recorded_of))]
        for paper, effects in PAPERS.items()
    }


def differences_of(shown, recorded_of):
    """Returns the difference on each set: set to `Difference`.

    Args:
        shown: set to a pair of the page and of `A minus B`.
        recorded_of: function of a page's name that gives its `Recorded` study.
    """
    return {each: difference_of(recorded_of(page), pair) for each, (page, pair) in shown.items()}


def has_one_seed(shown, name):
    """Whether the page that shows a difference on a set has one seed."""
    page, _ = shown[name]
    return len(PAGES[page].seeds) == 1


def picture(found):
    """Returns the SVG of what `found_by` returns: a row for each effect, a column for each set."""
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
    """Returns the Markdown table of what `found_by` returns, with a link from each number to its page."""
    rows = []
    for paper, effects in found.items():
        for effect, differences in effects:
            cells = [_link(effect.shown, name, differences[name]) if name in differences else "" for name in SETS]
            rows.append([f"{paper}: {effect.text[0].lower()}{effect.text[1:]}", effect.printed, *cells])
    return markdown(["effect", "in the paper", *SETS.values()], rows)


def _link(shown, name, difference):
    """A difference as a link, in italics if it has one seed."""
    mark = "*" if has_one_seed(shown, name) else ""
    return f"[{mark}{text_of(difference)}{mark}]({shown[name][0]}.md)"


def _cell(zero, half, y, difference, mark):
    """The axis of a set, and on it the difference: a mark and a line."""
    left, right = zero - half, zero + half
    if difference is None:
        return [text(zero, y + 4, "no records", "small", "soft", "middle")]
    parts = [line(left, y, right, y, "grid"), line(zero, y - 7, zero, y + 7, "zero")]

    def at(value):
        return zero + half * max(-MOST, min(MOST, value)) / MOST

    parts.append(line(at(difference.low), y, at(difference.high), y))
    parts += [arrow(right, y, 1)] * (difference.high > MOST) + [arrow(left, y, -1)] * (difference.low < -MOST)
    if abs(difference.mean) <= MOST:
        parts.append(mark(at(difference.mean), y, difference.is_seen))
    return parts

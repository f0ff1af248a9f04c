"""The picture of all claims: what the papers report and what we measured, with a mark for each verdict."""

from benchmarks.pages import verdicts
from benchmarks.pages.claims import difference_of
from benchmarks.pages.evidence_of_claims import DECISIVE
from benchmarks.pages.papers import SETS
from benchmarks.pages.svg import WIDTH, arrow, line, svg, text

LEFT, GAP = 16, 16
# Percentage points at the ends of each axis. A line that goes farther ends in an arrow.
MOST = 16
HEAD, ROW, KEY, BEYOND = 46, 42, 20, 14
TITLE = (
    "The papers' effects: difference in Recall@1, in percentage points, with 95% confidence intervals. The tall line "
    "in each row is the effect in the paper, and the mark shows the verdict."
)
# The name of a mark and its color, in daylight and in the dark.
COLORS = {
    verdicts.AGREES: ("#1a7f37", "#3fb950"),
    verdicts.WEAKER: ("#0969da", "#58a6ff"),
    verdicts.EXCLUDED: ("#cf222e", "#f85149"),
    verdicts.CANNOT_TELL: ("#59636e", "#9198a1"),
    verdicts.NOT_FAIR: ("#9a6700", "#d29922"),
}


def differences_of(shown, recorded_of):
    """Returns a dictionary from each dataset to the `Difference` that was measured on it.

    Args:
        shown: Dictionary from a dataset to a source and a text `A minus B`.
        recorded_of: Function from the name of a source to its `Recorded` study.
    """
    return {each: difference_of(recorded_of(page), pair) for each, (page, pair) in shown.items()}


def picture(by_claim):
    """Returns the SVG with a row for each claim and a column for each dataset.

    Args:
        by_claim: What `evidence_of_claims.evidence_by_claim` returns. Claims without evidence are left out. On cars,
            rows with rules that were fixed before the runs replace others.
    """
    wide = (WIDTH - 2 * LEFT - GAP * (len(SETS) - 1)) / len(SETS)
    middles = [LEFT + number * (wide + GAP) + wide / 2 for number in range(len(SETS))]
    parts, y = _key(14.0)
    for paper, claims in by_claim.items():
        claims = [(effect, found) for effect, found in claims if found]
        if not claims:
            continue
        parts.append(text(LEFT, y + 20, paper, "head"))
        for middle, name in zip(middles, SETS.values(), strict=True):
            parts.append(text(middle, y + 38, name, "small", "soft", "middle"))
        y += HEAD
        for effect, found in claims:
            parts.append(text(LEFT, y + 14, effect.text))
            shown = {**found, "cars": found.get(DECISIVE, found.get("cars"))}
            reported = effect.reported.points if effect.reported else None
            for middle, name in zip(middles, SETS, strict=True):
                parts += _cell(middle, wide / 2, y + 28, shown.get(name), reported)
            y += ROW
    return svg(y + 4, TITLE, parts, _style())


def _key(y):
    """Returns the legend of all marks and the height below it."""
    parts = []
    for verdict in verdicts.VERDICTS:
        parts += [*_mark(LEFT + 6, y, verdict), text(LEFT + 20, y + 5, verdict, "small")]
        y += KEY
    parts += [_paper(LEFT + 6, y), text(LEFT + 20, y + 5, "effect in the paper", "small")]
    return parts, y + KEY - 8


def _cell(zero, half, y, evidence, reported):
    """Draws the axis of a dataset, and on it the effect of the paper, the difference and its interval."""
    left, right = zero - half, zero + half
    if evidence is None:
        return [text(zero, y + 4, "not measured", "small", "soft", "middle")]
    parts = [line(left, y, right, y, "grid"), line(zero, y - 7, zero, y + 7, "zero")]

    def at(value):
        return zero + half * max(-MOST, min(MOST, value)) / MOST

    difference, kind = evidence.difference, _kind(evidence.verdict)
    parts.append(line(at(difference.low), y, at(difference.high), y, f"line {kind}"))
    kinds = "line", kind
    parts += [arrow(right, y, 1, *kinds)] * (difference.high > MOST)
    parts += [arrow(left, y, -1, *kinds)] * (difference.low < -MOST)
    if reported is not None:
        parts.append(_paper(at(reported), y))
    # The mark of a difference beyond the axis is next to its arrow.
    x = at(difference.mean)
    if abs(difference.mean) > MOST:
        x = max(left + BEYOND, min(right - BEYOND, x))
    return [*parts, *_mark(x, y, evidence.verdict)]


def _paper(x, y):
    return line(x, y - 9, x, y + 9, "paper")


def _mark(x, y, verdict):
    """Draws the mark of a verdict. Marks also differ in shape, for readers who do not see their colors."""
    kind = _kind(verdict)
    if verdict == verdicts.AGREES:
        return [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" class="mark {kind}"/>']
    if verdict == verdicts.CANNOT_TELL:
        return [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="ring {kind}"/>']
    if verdict == verdicts.NOT_FAIR:
        return [f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" class="ring {kind}"/>']
    if verdict == verdicts.WEAKER:
        points = f"{x - 5:.1f},{y + 4:.1f} {x + 5:.1f},{y + 4:.1f} {x:.1f},{y - 5:.1f}"
        return [f'<polygon points="{points}" class="mark {kind}"/>']
    return [line(x - 4, y - 4, x + 4, y + 4, f"line {kind}"), line(x - 4, y + 4, x + 4, y - 4, f"line {kind}")]


def _kind(verdict):
    return verdict.replace(" ", "-")


def _style():
    """Returns the style of the marks, with colors for daylight and for the dark."""
    rules = {name: [] for name in ("day", "dark")}
    for verdict, colors in COLORS.items():
        for place, color in zip(rules.values(), colors, strict=True):
            kind = _kind(verdict)
            place.append(f".mark.{kind}{{fill:{color}}}.ring.{kind},.line.{kind}{{stroke:{color}}}")
    day, dark = ("\n".join(each) for each in rules.values())
    return (
        "\n.ring{fill:#fff;stroke-width:2}.paper{stroke:#8250df;stroke-width:3}\n"
        f"{day}\n@media(prefers-color-scheme:dark){{\n.ring{{fill:#0d1117}}.paper{{stroke:#bc8cff}}\n{dark}\n}}"
    )

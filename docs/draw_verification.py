"""Draws how similar pairs are: `python -m docs.draw_verification` writes docs/images/threshold.svg."""

import math
import pathlib

from docs import svg

PICTURE = pathlib.Path(__file__).parent / "images/threshold.svg"
WIDTH, HEIGHT, LEFT, BASE, PEAK = 720, 330, 30, 250, 170
# Mean and standard deviation of the similarities of pairs of different classes, and of pairs of the same class.
DIFFERENT, SAME = (0.15, 0.17), (0.68, 0.11)
LOWEST, HIGHEST, THRESHOLD, STEPS = -0.4, 1.0, 0.5, 150
STYLE = """text { font: 15px sans-serif; fill: #24292f; text-anchor: middle }
.small { font-size: 13px; fill: #57606a }
.start { text-anchor: start } .end { text-anchor: end }
line { stroke: #57606a; stroke-width: 1.5 }
.threshold { stroke: #24292f; stroke-width: 2; stroke-dasharray: 6 4 }
.different { fill: none; stroke: #bc4c00; stroke-width: 2.5 } .false-accepts { fill: #bc4c00; fill-opacity: 0.55 }
.same { fill: none; stroke: #0969da; stroke-width: 2.5 } .false-rejects { fill: #0969da; fill-opacity: 0.45 }
.of-different { fill: #bc4c00 } .of-same { fill: #0969da }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .small { fill: #9da7b1 } line { stroke: #8b949e } .threshold { stroke: #e6edf3 }
  .different { stroke: #f0883e } .false-accepts, .of-different { fill: #f0883e }
  .same { stroke: #58a6ff } .false-rejects, .of-same { fill: #58a6ff }
}"""
LABEL = (
    "Two bell curves of similarities: pairs of different classes on the left, pairs of the same class on the right. "
    "A threshold at 0.5 cuts the overlap into false accepts and false rejects."
)


def x_of(similarity):
    """Returns the horizontal place of a similarity."""
    return LEFT + (WIDTH - 2 * LEFT) * (similarity - LOWEST) / (HIGHEST - LOWEST)


def points(bell, low, high):
    """Returns the points of a bell curve between two similarities, as a path has them."""
    mean, deviation = bell
    similarities = [low + (high - low) * step / STEPS for step in range(STEPS + 1)]
    heights = [PEAK * math.exp(-(((each - mean) / deviation) ** 2) / 2) for each in similarities]
    return [f"{x_of(each):.1f} {BASE - height:.1f}" for each, height in zip(similarities, heights, strict=True)]


def curve(kind, bell):
    """Returns the line of a bell curve."""
    return f'<path class="{kind}" d="M {" L ".join(points(bell, LOWEST, HIGHEST))}"/>'


def area(kind, bell, low, high):
    """Returns the area below a part of a bell curve."""
    ends = f"L {x_of(high):.1f} {BASE} L {x_of(low):.1f} {BASE} Z"
    return f'<path class="{kind}" d="M {" L ".join(points(bell, low, high))} {ends}"/>'


def text(words, x, y, kinds=""):
    """Returns a line of text."""
    return f'<text class="{kinds}" x="{x:.1f}" y="{y}">{words}</text>'


def drawing():
    """Returns the picture as SVG."""
    middle = x_of(THRESHOLD)
    lines = [
        area("false-rejects", SAME, LOWEST, THRESHOLD),
        area("false-accepts", DIFFERENT, THRESHOLD, HIGHEST),
        curve("different", DIFFERENT),
        curve("same", SAME),
        f'<line x1="{LEFT}" y1="{BASE}" x2="{WIDTH - LEFT}" y2="{BASE}"/>',
        f'<line class="threshold" x1="{middle:.1f}" y1="36" x2="{middle:.1f}" y2="{BASE + 26}"/>',
        text("rejected: not the same", middle - 14, 48, "small end"),
        text("accepted: the same", middle + 14, 48, "small start"),
        text("pairs of different classes", x_of(DIFFERENT[0]) - 70, 74, "of-different"),
        text("pairs of the same class", x_of(SAME[0]) + 40, 74, "of-same"),
        text("false accepts", middle + 10, BASE + 24, "small start of-different"),
        text("false rejects", middle - 10, BASE + 24, "small end of-same"),
        text(f"threshold {THRESHOLD}", middle, BASE + 46),
        text("similarity of the two images, from low to high", WIDTH / 2, HEIGHT - 10, "small"),
        *(text(f"{each:g}", x_of(each), BASE + 20, "small") for each in (0.0, 1.0)),
    ]
    return svg.document(WIDTH, HEIGHT, LABEL, STYLE, lines)


if __name__ == "__main__":
    PICTURE.write_text(drawing(), encoding="utf-8")

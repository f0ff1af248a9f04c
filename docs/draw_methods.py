"""Draws what each paper's method does: `python -m docs.draw_methods` writes docs/images/method_*.svg."""

import math
import pathlib

from docs import svg

IMAGES = pathlib.Path(__file__).parent / "images"
WIDTH, HEIGHT = 720, 240
STYLE = """text { font: 14px sans-serif; fill: #24292f; text-anchor: middle }
.small { font-size: 12.5px; fill: #57606a }
rect, circle, path { fill: none; stroke: #57606a; stroke-width: 1.5 }
.a { fill: #ddf4f1 } .b { fill: #ffe7cf } .c { fill: #ddebff }
.arrow { stroke: #57606a; fill: none } .head { fill: #57606a; stroke: none }
.pull { stroke: #0969da; stroke-width: 2.5 } .push { stroke: #bc4c00; stroke-width: 2.5 }
.positive { fill: #0969da; stroke: none } .negative { fill: #bc4c00; stroke: none }
.query { fill: #24292f; stroke: none }
.pull-head { fill: #0969da; stroke: none } .push-head { fill: #bc4c00; stroke: none }
.dashed { stroke-dasharray: 6 4 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .small { fill: #9da7b1 } rect, circle, path, .arrow { stroke: #8b949e }
  .head { fill: #8b949e } .a { fill: #12403b } .b { fill: #553000 } .c { fill: #0c2d6b }
  .pull { stroke: #58a6ff } .push { stroke: #f0883e } .positive, .pull-head { fill: #58a6ff }
  .negative, .push-head { fill: #f0883e } .query { fill: #e6edf3 }
}"""
COLORS = ("a", "b", "c")


def text(words, x, y, kind=""):
    """Returns lines of text around a point, divided at |."""
    lines = words.split("|")
    first = y + 5 - 9 * (len(lines) - 1)
    return "".join(
        f'<text class="{kind}" x="{x:g}" y="{first + 18 * n:g}">{line}</text>' for n, line in enumerate(lines)
    )


def box(words, x, y, width, height=40, kind=""):
    """Returns a box with text, around a point."""
    corner = f'x="{x - width / 2:g}" y="{y - height / 2:g}"'
    return f'<rect class="{kind}" {corner} width="{width:g}" height="{height:g}" rx="7"/>' + text(words, x, y)


def arrow(x1, y1, x2, y2, kind="arrow", head="head"):
    """Returns an arrow from one point to another."""
    length = math.hypot(x2 - x1, y2 - y1)
    dx, dy = (x2 - x1) / length, (y2 - y1) / length
    bx, by = x2 - 9 * dx, y2 - 9 * dy
    points = f"{x2:.1f} {y2:.1f} L {bx - 4.5 * dy:.1f} {by + 4.5 * dx:.1f} L {bx + 4.5 * dy:.1f} {by - 4.5 * dx:.1f} Z"
    return f'<path class="{kind}" d="M {x1:.1f} {y1:.1f} L {bx:.1f} {by:.1f}"/><path class="{head}" d="M {points}"/>'


def dot(x, y, kind):
    """Returns an image as a dot."""
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="7"/>'


def attention_ensemble():
    """Learners with masks between two shared parts."""
    yield box("image", 45, 120, 66) + arrow(78, 120, 96, 120)
    yield box("shared|layers", 140, 120, 84, 56)
    for number, (color, y) in enumerate(zip(COLORS, (50, 120, 190), strict=True), 1):
        yield arrow(182, 120, 218, y) + box(f"mask {number}", 262, y, 84, 40, color)
        yield arrow(304, y, 340, y) + arrow(430, y, 466, y) + box(f"embedding {number}", 522, y, 110, 40, color)
        yield arrow(577, y, 612, 120)
    yield '<rect x="342" y="20" width="88" height="200" rx="7"/>' + text("shared|layers", 386, 120)
    yield box("concat-|enated", 660, 120, 92, 56)


def divide_and_conquer():
    """Clusters that train slices."""
    yield box("training|images", 70, 120, 100, 56)
    for number, (color, y) in enumerate(zip(COLORS, (50, 120, 190), strict=True), 1):
        yield arrow(120, 120, 166, y) + box(f"cluster {number}", 218, y, 100, 40, color)
        yield arrow(268, y, 330, y) + arrow(430, y, 492, y)
        yield box(f"slice {number}", 540, y, 92, 40, color)
    yield '<rect x="332" y="20" width="98" height="200" rx="7"/>' + text("shared|backbone", 381, 120)
    yield '<path class="dashed" d="M 590 30 h 14 v 180 h -14"/>' + text("one|embedding", 662, 120)


def ensembles():
    """Independent networks."""
    yield box("image", 55, 120, 80)
    for number, (color, y) in enumerate(zip(COLORS, (50, 120, 190), strict=True), 1):
        yield arrow(95, 120, 156, y) + box(f"network {number}", 216, y, 118, 40, color)
        yield arrow(275, y, 340, y) + box(f"embedding {number}", 402, y, 122, 40, color)
        yield arrow(463, y, 540, 120) + text(f"× √α{'₁₂₃'[number - 1]}", 506, y - 12 if y < 180 else y + 24, "small")
    yield box("concatenated", 606, 120, 128)


def edms():
    """Members with meta-classes."""
    yield box("classes", 52, 120, 84)
    for number, (color, y) in enumerate(zip(COLORS, (50, 120, 190), strict=True), 1):
        yield arrow(94, 120, 126, y) + box("meta-|classes", 172, y, 90, 48, color)
        yield arrow(217, y, 246, y) + box(f"network {number} with|hard proxies and walks", 340, y, 186, 48, color)
        yield arrow(433, y, 462, y) + box(f"embedding {number}", 520, y, 114, 40, color)
        yield arrow(577, y, 606, 120)
    yield box("concat-|enated", 658, 120, 100, 56)


def lifted_structure():
    """A positive pair among the negatives of both images."""
    i, j = (270, 120), (450, 120)
    for (x, y), own, word in (((160, 60), i, "negatives of i"), ((140, 180), i, ""), ((220, 205), i, "")):
        yield dot(x, y, "negative") + push(own, (x, y)) + text(word, 90, 96, "small")
    for (x, y), own, word in (((560, 60), j, "negatives of j"), ((580, 180), j, ""), ((500, 205), j, "")):
        yield dot(x, y, "negative") + push(own, (x, y)) + text(word, 640, 96, "small")
    yield arrow(282, 120, 352, 120, "pull", "pull-head") + arrow(438, 120, 368, 120, "pull", "pull-head")
    yield dot(*i, "positive") + dot(*j, "positive") + text("i", 270, 98) + text("j", 450, 98)
    yield text("positive pair", 360, 98, "small")


def push(center, negative, length=34):
    """Returns an arrow that pushes a negative away from an image."""
    (x, y), (cx, cy) = negative, center
    distance = math.hypot(x - cx, y - cy)
    dx, dy = (x - cx) / distance, (y - cy) / distance
    line = f'<path class="dashed" d="M {cx} {cy} L {x - 10 * dx:.1f} {y - 10 * dy:.1f}"/>'
    return line + arrow(x + 10 * dx, y + 10 * dy, x + length * dx, y + length * dy, "push", "push-head")


def ranked_list():
    """The two boundaries around a query."""
    x, y, inner, outer = 360, 120, 62, 106
    yield f'<circle cx="{x}" cy="{y}" r="{inner}"/><circle class="dashed" cx="{x}" cy="{y}" r="{outer}"/>'
    yield dot(x, y, "query") + text("query", x, y + 20, "small")
    for degrees, distance in ((20, 42), (160, 36)):
        yield dot(*place(x, y, degrees, distance), "positive")
    for degrees in (200, 318):
        yield arrow(*place(x, y, degrees, 86), *place(x, y, degrees, 60), "pull", "pull-head")
        yield dot(*place(x, y, degrees, 93), "positive")
    for degrees in (65, 250):
        yield arrow(*place(x, y, degrees, 88), *place(x, y, degrees, 116), "push", "push-head")
        yield dot(*place(x, y, degrees, 80), "negative")
    for degrees, distance in ((345, 150), (185, 160), (35, 175)):
        yield dot(*place(x, y, degrees, distance), "negative")
    yield text("radius α − m: images of|the query's class belong inside", 130, 60, "small")
    yield text("radius α: images of other|classes belong outside", 600, 200, "small")


def place(x, y, degrees, distance):
    """Returns a point at an angle and a distance from another one."""
    return x + distance * math.cos(math.radians(degrees)), y - distance * math.sin(math.radians(degrees))


METHODS = {
    attention_ensemble: "Learners with masks between shared layers",
    divide_and_conquer: "Clusters of images that train slices of the embedding",
    ensembles: "Independent networks with concatenated embeddings",
    edms: "Members with their own meta-classes, hard proxies and random walks",
    lifted_structure: "A positive pair among the negatives of both images",
    ranked_list: "A query with an inner and an outer boundary",
}


def drawing(method):
    """Returns the picture of a method as SVG."""
    return svg.document(WIDTH, HEIGHT, METHODS[method], STYLE, method())


if __name__ == "__main__":
    for method in METHODS:
        (IMAGES / f"method_{method.__name__}.svg").write_text(drawing(method), encoding="utf-8")

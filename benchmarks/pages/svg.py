"""Small SVG files that are readable on a phone, in dark mode and without colors."""

from xml.sax.saxutils import escape

# About the width of a phone, so that the text is not scaled down there.
WIDTH = 400
# The picture draws its own background, so that it is readable on a page of any color.
STYLE = """
text{font:14px system-ui,sans-serif;fill:#1f2328;stroke:#fff;stroke-width:3px;paint-order:stroke}
.head{font-weight:600}.soft{fill:#59636e}.small{font-size:12px}.end{text-anchor:end}.middle{text-anchor:middle}
.back{fill:#fff}.line{stroke:#1f2328;stroke-width:2;fill:none}.grid{stroke:#d1d9e0}.zero{stroke:#818b98}
.full{fill:#1f2328;stroke:#1f2328;stroke-width:2}.hollow{fill:#fff;stroke:#1f2328;stroke-width:2}
@media(prefers-color-scheme:dark){
text{fill:#f0f6fc;stroke:#0d1117}.soft{fill:#9198a1}.back{fill:#0d1117}.line{stroke:#f0f6fc}.grid{stroke:#3d444d}.zero{stroke:#9198a1}
.full{fill:#f0f6fc;stroke:#f0f6fc}.hollow{fill:#0d1117;stroke:#f0f6fc}
}"""


def svg(height, title, parts, style=""):
    """Returns an SVG file.

    Args:
        height: Height of the picture. All pictures have the same width.
        title: Title for screen readers.
        parts: List of its elements.
        style: Style of elements that only this picture has.
    """
    body = "\n".join(parts)
    size = f'width="{WIDTH}" height="{height:g}" viewBox="0 0 {WIDTH} {height:g}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n<title>{escape(title)}</title>\n'
        f'<style>{STYLE}{style}\n</style>\n<rect class="back" width="{WIDTH}" height="{height:g}"/>\n{body}\n</svg>\n'
    )


def text(x, y, words, *classes):
    kind = f' class="{" ".join(classes)}"' if classes else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{kind}>{escape(words)}</text>'


def line(x1, y1, x2, y2, kind="line"):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def dot(x, y, is_full):
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="{"full" if is_full else "hollow"}"/>'


def arrow(x, y, direction, *classes):
    """Draws an arrow at the end of a line that is cut off: on the right with direction 1, on the left with -1."""
    points = f"{x - 7 * direction:.1f},{y - 5:.1f} {x:.1f},{y:.1f} {x - 7 * direction:.1f},{y + 5:.1f}"
    return f'<polyline points="{points}" class="{" ".join(classes or ["line"])}"/>'


def path(points, dashes=""):
    """Draws a line through points, with dashes such as `6 3`."""
    to = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    more = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<polyline points="{to}" class="line"{more}/>'


def ticks(low, high, most=6):
    """Returns round numbers from below `low` to above `high`."""
    for step in (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000):
        first, last = int(low // step), int(-(-high // step))
        if last - first <= most:
            return [step * number for number in range(first, last + 1)]
    raise ValueError(f"The range is too wide for the ticks of an axis. Received: low={low}, high={high}.")

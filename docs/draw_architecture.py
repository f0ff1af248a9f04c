"""Draws the packages of rooms.bzl as floors: `python -m docs.draw_architecture` writes docs/images/architecture.svg."""

import pathlib
import re
import textwrap
from xml.sax.saxutils import escape

from docs import svg

ROOT = pathlib.Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs/images/architecture.svg"
WIDTH, BOX, GAP, LEFT, TOP = 900, 76, 14, 8, 8
# Width of a character and height of a line, in pixels.
CHARACTER, LINE = 7, 18
STYLE = """text { font: 14px sans-serif; fill: #57606a; text-anchor: middle }
.name { font: bold 15px monospace; fill: #24292f }
rect { fill: none; stroke: #57606a; stroke-width: 1.5 }
.door { fill: #ddf4f1 }
@media (prefers-color-scheme: dark) {
  text { fill: #9da7b1 } .name { fill: #e6edf3 } rect { stroke: #8b949e } .door { fill: #12403b }
}"""


def table():
    """Returns the packages that each package may import, and the purpose of each, from rooms.bzl."""
    text, names = (ROOT / "rooms.bzl").read_text(encoding="utf-8"), {}
    exec(text, names)
    purposes = {room: said for said, room in re.findall(r'^    # (.*)\.\n    "(.+?)": \[', text, re.MULTILINE)}
    return names["ROOMS"], {room: purposes[room] for room in names["ROOMS"]}


def floors(rooms):
    """Returns the packages by floor, from the bottom. Each is one floor above the highest that it may import."""
    floor = {}
    for room, others in rooms.items():
        floor[room] = 1 + max((floor[other] for other in others), default=0)
    return [[room for room in rooms if floor[room] == number] for number in range(1, max(floor.values()) + 1)]


def drawing():
    """Returns the picture as an SVG."""
    rooms, purposes = table()
    levels = list(reversed(floors(rooms)))
    height = 2 * TOP + len(levels) * (BOX + GAP) - GAP
    label = f"The packages of tfdml on {len(levels)} floors. Each package imports only from the floors below it."
    lines = []
    for number, level in enumerate(levels):
        width = (WIDTH - 2 * LEFT - GAP * (len(level) - 1)) / len(level)
        y = TOP + number * (BOX + GAP)
        for place, room in enumerate(level):
            x = LEFT + place * (width + GAP)
            name = "tfdml/__init__.py, tfdml/COMMAND.py" if room == "tfdml" else room.removeprefix("tfdml/")
            door = ' class="door"' if room == "tfdml" else ""
            middle = x + width / 2
            lines += [
                f'<rect{door} x="{x:g}" y="{y}" width="{width:g}" height="{BOX}" rx="8"/>',
                f'<text class="name" x="{middle:g}" y="{y + 24}">{escape(name)}</text>',
            ]
            purpose = textwrap.wrap(purposes[room][0].lower() + purposes[room][1:], int(width / CHARACTER) - 2)
            for line, words in enumerate(purpose):
                lines.append(f'<text x="{middle:g}" y="{y + 46 + line * LINE}">{escape(words)}</text>')
    return svg.document(WIDTH, height, label, STYLE, lines)


if __name__ == "__main__":
    PICTURE.write_text(drawing(), encoding="utf-8")

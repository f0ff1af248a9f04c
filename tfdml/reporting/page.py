"""The building blocks of a page: tables, images, curves, and sections on what was run."""

import base64
import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jinja2
import numpy as np
from markupsafe import Markup
from PIL import Image

TEMPLATES = Path(__file__).with_name("templates")
PAGES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(TEMPLATES),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
PAGES.filters["anchor"] = lambda title: "-".join(title.lower().split())
# JSON has no NaN; keys stay in their order.
PAGES.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
# The macros of parts.html, which return HTML as `Markup` and escape everything else: `table`, `pairs`, `reproduce`, ...
html = PAGES.get_template("parts.html").module
code, paragraph = Markup("<code>{}</code>").format, Markup("<p>{}</p>").format
# Words for names of flags, where another word says more.
WORDS = {"embedding_size": "Dimensions"}


def joined(*content):
    """Returns HTML one after another; None is left out, and text is escaped."""
    return Markup("").join(piece for piece in content if piece is not None)


def about_run(main, changed):
    """Returns what was run: the main flags, and those that are not at their default, name to value and default."""
    rows = [[f"--{name}", *(code(text) if text else "(empty)" for text in values)] for name, values in changed.items()]
    caption = "Flags that are not at their default"
    values = html.pairs({WORDS.get(name, name.capitalize()): value for name, value in main.items()})
    return joined(values, html.table(["Flag", "Value", "Default"], rows, caption, "flags") if rows else None)


def document(title, state, sections, data):
    """Returns the text of a page that opens from disk and asks no network for anything.

    `state` has sentences below the title, each to whether it is of a run that is not complete. A section whose content
    is empty is left out. `data` is plain data for the script.
    """
    style, *scripts = (
        Markup(TEMPLATES.joinpath(name).read_text(encoding="utf-8")) for name in ("page.css", "places.js", "page.js")
    )
    sections = {name: content for name, content in sections.items() if content}
    return PAGES.get_template("page.html").render(
        title=title, style=style, state=state, sections=sections, data=data, script=joined(*scripts)
    )


# Bytes of all pictures of a page, and the types that browsers draw.
PICTURES = 3_000_000
TYPES = {".png": "image/png", ".svg": "image/svg+xml"}
# Longest sides, in pixels, that are tried one after another, and the quality of the JPEG.
SIDES = (1600, 1200, 800, 512, 384, 320, 256, 192, 144, 96, 64)
QUALITY = 82


def picture_figures(captions):
    """Returns the pictures of a run, PNG and SVG files to their captions; None without any."""
    if not captions:
        return None
    most, pictures = PICTURES // len(captions), []
    for path, caption in captions.items():
        content = path.read_bytes()
        if path.suffix == ".png" and len(content) > most:
            with Image.open(io.BytesIO(content)) as picture:
                source = jpeg_within(picture, most)
        else:
            source = data_uri(content, TYPES[path.suffix])
        pictures.append((source, path.stem.replace("_", " "), caption))
    return html.pictures(pictures)


def jpeg_within(picture, most, largest=SIDES[0]):
    """Returns the largest JPEG of a PIL image that has at most `most` bytes, as a data URI.

    It is not enlarged. If even the smallest has more bytes, it is that one.
    """
    picture, promising = picture.convert("RGB"), largest
    for side in SIDES:
        if side > promising and side != SIDES[-1]:
            continue
        content = jpeg(picture, side)
        if len(content) <= most:
            break
        # Bytes grow with the area, or less.
        promising = 1.1 * min(side, max(picture.size)) * math.sqrt(most / len(content))
    return data_uri(content, "image/jpeg")


def jpeg(picture, side):
    """Returns the bytes of a PIL image in RGB as a JPEG with a longest side; it is not enlarged."""
    small, file = picture.copy(), io.BytesIO()
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    small.save(file, "JPEG", quality=QUALITY)
    return file.getvalue()


def data_uri(content, kind):
    """Returns the address of an image of a media type that is its content, the bytes of the file."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


# Places along a side at most; those of larger feature maps are averaged.
MOST_PLACES = 16


class PlaceShares(NamedTuple):
    """Similarity maps of a gallery.

    `maps` is the row of a query to a list of `SimilarityMap`, of it and each of its neighbors. `seen` is a function of
    an image's height and width that returns left, top, right and bottom of the part that the network sees, as
    fractions.
    """

    maps: dict
    seen: Callable

    def grid(self):
        """The height and the width of all maps."""
        return list(_fewer(next(shares.of_a for maps in self.maps.values() for shares in maps)).shape)

    def of_query(self, row):
        """A text for each neighbor of a query: base64 of a byte for each place of the query, and of the neighbor.

        The byte is 128 where the share is 0, and 1 or 255 where it is largest.
        """
        texts = []
        for of_pair in self.maps[row]:
            shares = np.stack([_fewer(of_pair.of_a), _fewer(of_pair.of_b)])
            largest = max(np.abs(shares).max(), 1e-12)
            texts.append(base64.b64encode(np.round(128 + 127 * shares / largest).astype(np.uint8).tobytes()).decode())
        return texts


def _fewer(shares):
    height, width = (min(side, MOST_PLACES) for side in shares.shape)
    return np.asarray(Image.fromarray(shares.astype(np.float32)).resize((width, height), Image.Resampling.BOX))


WIDTH, HEIGHT = 480, 250
LEFT, RIGHT, TOP, BOTTOM = 58, 24, 12, 42
SIZE = {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": WIDTH - RIGHT, "bottom": HEIGHT - BOTTOM}
# Points of a curve that are drawn at most, and up to which each is marked.
MOST_POINTS, MARKED = 400, 24
# The style has as many colors, and as many dashes: together they tell 32 curves apart.
COLORS, DASHES = 8, 4


def curve_figures(charts):
    """Returns charts of curves against steps, with legends: title to name to `(steps, values)`; None without any."""
    drawn = []
    for title, curves in charts.items():
        shown = {}
        for name, curve in curves.items():
            points = [point for point in zip(*curve, strict=True) if math.isfinite(point[1])]
            if points:
                # Of many points every n-th, and the last.
                shown[name] = [*points[: -1 : -(-len(points) // MOST_POINTS)], points[-1]]
        if shown:
            drawn.append(_chart(title, shown))
    return html.charts(drawn, SIZE) if drawn else None


def _chart(title, curves):
    """Returns what the template draws: where lines, marks and ticks are, and the words next to them."""
    steps, values = zip(*(point for points in curves.values() for point in points), strict=True)
    low, high = min(values), max(values)
    # Where all are equal they lie in the middle.
    aside = 0 if high > low else abs(low) or 1
    across, up = _ticks(0, max(steps) or 1, 5), _ticks(low - aside, high + aside, 5)

    def x(step):
        return round(LEFT + (WIDTH - LEFT - RIGHT) * step / across[-1], 1)

    def y(value):
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - up[0]) / (up[-1] - up[0]), 1)

    words = []
    for name, points in curves.items():
        (first, start), (last, end) = points[0], points[-1]
        words.append(f"{name}: {start:.4g} at step {first:,}, {end:.4g} at step {last:,}")
    return {
        "title": title,
        "described": f"{title} by step. {'; '.join(words)}.",
        "up": [(y(value), _written(value)) for value in up],
        "across": [(x(step), _written(step)) for step in across],
        "curves": [
            {
                "name": name,
                # Lines next to each other differ in color and dash; of one color, each has another dash.
                "line": f"curve s{number % COLORS} d{(number + number // COLORS) % DASHES}",
                "points": [(x(step), y(value), f"step {step:,}: {value:.4g}") for step, value in points],
                "marked": len(points) <= MARKED,
            }
            for number, (name, points) in enumerate(curves.items())
        ],
    }


def _ticks(low, high, count):
    """Returns round numbers from below `low` to above `high`."""
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [step * number for number in range(first, last + 1)]


def _written(value):
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.6g}" if abs(value) > 1e-12 else "0"

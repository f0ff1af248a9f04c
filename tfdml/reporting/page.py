"""The building blocks of a report: tables, images, curves, and sections about the settings."""

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
# JSON does not support NaN. Keys keep their order.
PAGES.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
# The macros of parts.html, which return HTML as `Markup` and escape everything else: `table`, `pairs`, `reproduce`, ...
html = PAGES.get_template("parts.html").module
code, paragraph = Markup("<code>{}</code>").format, Markup("<p>{}</p>").format
# Readable names of flags, if capitalizing the flag is not enough.
WORDS = {"embedding_size": "Dimensions"}


def joined(*content):
    """Returns concatenated HTML. None is skipped, and text is escaped."""
    return Markup("").join(piece for piece in content if piece is not None)


def about_run(main, changed):
    """Returns the main flags, and a table of all flags that differ from their defaults (name to value and default)."""
    rows = [[f"--{name}", *(code(text) if text else "(empty)" for text in values)] for name, values in changed.items()]
    caption = "Flags that differ from their default"
    values = html.pairs({WORDS.get(name, name.capitalize()): value for name, value in main.items()})
    return joined(values, html.table(["Flag", "Value", "Default"], rows, caption, "flags") if rows else None)


def document(title, state, sections, data):
    """Returns the HTML of a page that can be opened from disk and does not access the network.

    `state` maps sentences below the title to whether they are about an incomplete run. Sections with empty content are
    left out. `data` is plain data for the script.
    """
    style, *scripts = (
        Markup(TEMPLATES.joinpath(name).read_text(encoding="utf-8")) for name in ("page.css", "places.js", "page.js")
    )
    sections = {name: content for name, content in sections.items() if content}
    return PAGES.get_template("page.html").render(
        title=title, style=style, state=state, sections=sections, data=data, script=joined(*scripts)
    )


# Bytes for all figures of a page, and the media types of their files.
PICTURES = 3_000_000
TYPES = {".png": "image/png", ".svg": "image/svg+xml"}
# Longest sides, in pixels, that are tried in this order, and the quality of the JPEG.
SIDES = (1600, 1200, 800, 512, 384, 320, 256, 192, 144, 96, 64)
QUALITY = 82


def picture_figures(captions):
    """Returns HTML with the figures of a run, from PNG and SVG files to their captions, or None without any."""
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
    """Returns a PIL image as the largest JPEG of at most `most` bytes, as a data URI.

    The image is never enlarged. If even the smallest JPEG has more bytes, that one is returned.
    """
    picture, promising = picture.convert("RGB"), largest
    for side in SIDES:
        if side > promising and side != SIDES[-1]:
            continue
        content = jpeg(picture, side)
        if len(content) <= most:
            break
        # The number of bytes grows at most in proportion to the area, so skip sides that are certainly too large.
        promising = 1.1 * min(side, max(picture.size)) * math.sqrt(most / len(content))
    return data_uri(content, "image/jpeg")


def jpeg(picture, side):
    """Returns an RGB PIL image as JPEG bytes, with a given longest side. It is never enlarged."""
    small, file = picture.copy(), io.BytesIO()
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    small.save(file, "JPEG", quality=QUALITY)
    return file.getvalue()


def data_uri(content, kind):
    """Returns the data URI of an image from its bytes and media type."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


# Largest number of places along a side. Larger feature maps are averaged.
MOST_PLACES = 16


class PlaceShares(NamedTuple):
    """Similarity maps of a gallery.

    `maps` maps the row of a query to a list of `SimilarityMap` objects, one for each of its neighbors. `seen` is a
    function of an image's height and width. It returns the left, top, right and bottom edge of the part that the
    network sees, as fractions.
    """

    maps: dict
    seen: Callable

    def grid(self):
        """Returns the height and the width of all maps."""
        return list(_fewer(next(shares.of_a for maps in self.maps.values() for shares in maps)).shape)

    def of_query(self, row):
        """Returns one base64 string per neighbor of a query, with one byte per place.

        The bytes are for the places of the query, followed by the places of the neighbor. A byte is 128 for a share of
        0, and 1 or 255 for the largest share.
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
# Largest number of points of a curve that are drawn, and that get a marker.
MOST_POINTS, MARKED = 400, 24
# Number of colors and of dash styles in page.css. Together, they distinguish 32 curves.
COLORS, DASHES = 8, 4


def curve_figures(charts):
    """Returns charts with legends, from title to name to curve `(steps, values)`, or None without any."""
    drawn = []
    for title, curves in charts.items():
        shown = {}
        for name, curve in curves.items():
            points = [point for point in zip(*curve, strict=True) if math.isfinite(point[1])]
            if points:
                # If there are many points, keep every n-th and the last.
                shown[name] = [*points[: -1 : -(-len(points) // MOST_POINTS)], points[-1]]
        if shown:
            drawn.append(_chart(title, shown))
    return html.charts(drawn, SIZE) if drawn else None


def _chart(title, curves):
    """Returns what the template draws: positions of lines, marks and ticks, and the text next to them."""
    steps, values = zip(*(point for points in curves.values() for point in points), strict=True)
    low, high = min(values), max(values)
    # If all values are nearly equal, the curve is in the middle.
    aside = 0 if high - low > 1e-9 * max(abs(low), abs(high)) else abs(low) or 1
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
                # Neighboring lines differ in color and dash. Lines of the same color have different dashes.
                "line": f"curve s{number % COLORS} d{(number + number // COLORS) % DASHES}",
                "points": [(x(step), y(value), f"step {step:,}: {value:.4g}") for step, value in points],
                "marked": len(points) <= MARKED,
            }
            for number, (name, points) in enumerate(curves.items())
        ],
    }


def _ticks(low, high, count):
    """Returns round numbers that span from at most `low` to at least `high`."""
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [step * number for number in range(first, last + 1)]


def _written(value):
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.6g}" if abs(value) > 1e-12 else "0"

"""The building blocks of a page: escaped HTML, images, curves, and sections on what was run."""

import base64
import html
import io
import json
import math
import string
from collections.abc import Callable
from importlib import resources
from typing import NamedTuple

import numpy as np
from PIL import Image


class Html(str):
    """Text that is HTML, which is not escaped again."""


def element(name, /, *content, **attributes):
    """Returns an element as `Html`.

    Args:
        name: name of the tag.
        *content: what is in it: `Html`, or anything else, which is escaped; None is left out.
        **attributes: its attributes; `_` in a name becomes `-`, and one at the end goes, as in `class_`. True gives an
            attribute without a value; None and False leave it out.
    """
    return Html(f"<{name}{_attributes(attributes)}>{joined(*content)}</{name}>")


def empty_element(name, /, **attributes):
    """Returns an element without content, such as `img`."""
    # The slash ends those of SVG, and is allowed in those of HTML.
    return Html(f"<{name}{_attributes(attributes)}/>")


def joined(*content):
    """Returns content one after another as `Html`."""
    return Html("".join(escaped(each) for each in content if each is not None))


def escaped(value):
    """Returns text as `Html`."""
    return value if isinstance(value, Html) else Html(html.escape(str(value)))


def table(head, rows, caption, **attributes):
    """Returns a table whose first column names the rows.

    Args:
        head: titles of the columns.
        rows: lists of cells.
        caption: what the table shows.
        **attributes: attributes of the table.
    """
    top = element("tr", *(element("th", cell, scope="col") for cell in head))
    lines = [
        element("tr", element("th", first, scope="row"), *(element("td", cell) for cell in cells))
        for first, *cells in rows
    ]
    content = element("caption", caption), element("thead", top), element("tbody", *lines)
    # Wide tables scroll by themselves; by keys, too, as they can have the focus.
    about = {"class_": "scroll", "tabindex": "0", "role": "region", "aria_label": caption}
    return element("div", element("table", *content, **attributes), **about)


def pairs(named):
    """Returns a list of names with their values.

    Args:
        named: name to value; those without a value are left out.
    """
    known = {name: value for name, value in named.items() if value not in (None, "")}
    return element("dl", *(element("div", element("dt", name), element("dd", each)) for name, each in known.items()))


def section(title, *content):
    """Returns a section of the page, to which its title leads."""
    name = anchor(title)
    heading = element("h2", title, id=f"{name}-title")
    return element("section", heading, *content, id=name, aria_labelledby=f"{name}-title")


def anchor(title):
    """Returns the name by which links lead to a section."""
    return "-".join(title.lower().split())


def _attributes(attributes):
    present = {name: value for name, value in attributes.items() if value is not None and value is not False}
    return "".join(
        f" {name.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{html.escape(str(value))}"')
        for name, value in present.items()
    )


# Words for names of flags, where another word says more.
WORDS = {"embedding_size": "Dimensions"}


def about_run(main, changed):
    """Returns what was run.

    Args:
        main: name of a flag to its value, of those that say most.
        changed: name of a flag to its value and its default, of those that are not at their default.
    """
    named = {WORDS.get(name, name.capitalize()): value for name, value in main.items()}
    rows = [[f"--{name}", _code(value), _code(default)] for name, (value, default) in changed.items()]
    caption = "Flags that are not at their default"
    return joined(pairs(named), table(["Flag", "Value", "Default"], rows, caption, class_="flags") if rows else None)


def what_next(steps):
    """Returns a box with what a user can do next.

    Args:
        steps: sentence to a command that does it, or None.
    """
    listed = [
        element(
            "li", element("p", sentence), element("pre", element("code", command), tabindex="0") if command else None
        )
        for sentence, command in steps.items()
    ]
    return element("ul", *listed, class_="next") if listed else None


def reproduce(command, environment):
    """Returns how to train the same again, and by what the report was made.

    Args:
        command: the command line.
        environment: name to version.
    """
    again = element("p", "This command trains the same run again in another folder:")
    return joined(again, element("pre", element("code", command), tabindex="0"), pairs(environment))


def _code(value):
    return element("code", value) if value else "(empty)"


# What JSON may hold, but not where it stands in HTML: the end of a script, and the start of a comment.
UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def document(title, state, sections, data):
    """Returns the text of a page that opens from disk and asks no network for anything.

    Args:
        title: its title.
        state: sentences below the title, each to whether it is of a run that is not complete.
        sections: title to content, `Html`; without content there is no section.
        data: plain data for the script.
    """
    shown = {name: content for name, content in sections.items() if content}
    links = [element("li", element("a", name, href=f"#{anchor(name)}")) for name in shown]
    files = resources.files("tfdml.reporting") / "page"
    names = ("page.html", "page.css", "places.js", "page.js")
    parts = {name: files.joinpath(name).read_text(encoding="utf-8") for name in names}
    return string.Template(parts["page.html"]).substitute(
        title=joined(title),
        style=parts["page.css"],
        state=joined(*(element("p", text, class_=f"state{' going' * going}") for text, going in state.items())),
        links=joined(*links),
        sections=joined(*(section(name, content) for name, content in shown.items())),
        data=json_in_html(data),
        script=joined(Html(parts["places.js"]), Html(parts["page.js"])),
    )


def json_in_html(data):
    """Returns data as JSON that can stand in a script element."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character, written in UNSAFE.items():
        text = text.replace(character, written)
    return text


# Bytes of all pictures of a page, and the types that browsers draw.
PICTURES = 3_000_000
TYPES = {".png": "image/png", ".svg": "image/svg+xml"}
# Longest sides, in pixels, that are tried one after another, and the quality of the JPEG.
SIDES = (1600, 1200, 800, 512, 384, 320, 256, 192, 144, 96, 64)
QUALITY = 82


def picture_figures(captions):
    """Returns the pictures of a run with their captions.

    Args:
        captions: path of a PNG or SVG file to what it shows.
    """
    share = PICTURES // max(len(captions), 1)
    figures = [_image_figure(path, caption, share) for path, caption in captions.items()]
    return element("div", *figures, class_="pictures") if figures else None


def _image_figure(path, caption, most):
    content = path.read_bytes()
    if path.suffix == ".png" and len(content) > most:
        with Image.open(io.BytesIO(content)) as picture:
            source = jpeg_within(picture, most)
    else:
        source = data_uri(content, TYPES[path.suffix])
    # What can be seen stands in the caption; the same words again would be read twice.
    image = empty_element("img", src=source, alt=path.stem.replace("_", " "))
    return element("figure", image, element("figcaption", caption))


def jpeg_within(picture, most, largest=SIDES[0]):
    """Returns the largest JPEG of a picture that has at most a number of bytes, as a data URI.

    Args:
        picture: PIL image; it is not enlarged.
        most: bytes. If even the smallest has more, it is that one.
        largest: longest side in pixels.
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
    """Returns the bytes of a picture as a JPEG.

    Args:
        picture: PIL image in RGB; it is not enlarged.
        side: longest side in pixels.
    """
    small, file = picture.copy(), io.BytesIO()
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    small.save(file, "JPEG", quality=QUALITY)
    return file.getvalue()


def data_uri(content, kind):
    """Returns the address of an image that is its content.

    Args:
        content: bytes of the file.
        kind: media type.
    """
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


# Places along a side at most; those of larger feature maps are averaged.
MOST_PLACES = 16


class Places(NamedTuple):
    """Similarity maps of a gallery.

    Args:
        maps: row of a query to a list of `SimilarityMap`, of it and each of its neighbors.
        seen: function of an image's height and width that returns left, top, right and bottom of the part that the
            network sees, as fractions.
    """

    maps: dict
    seen: Callable

    def grid(self):
        """The height and the width of all maps."""
        return list(_fewer(next(each.of_a for maps in self.maps.values() for each in maps)).shape)

    def seen_of(self, image):
        """The part of an image `[H, W, 3]` that the network sees."""
        return [round(edge, 4) for edge in self.seen(*image.shape[:2])]

    def of_query(self, row):
        """A text for each neighbor of a query: base64 of a byte for each place of the query, and of the neighbor.

        The byte is 128 where the share is 0, and 1 or 255 where it is largest.
        """
        return [_text(*(_fewer(shares) for shares in (each.of_a, each.of_b))) for each in self.maps[row]]


def _fewer(shares):
    height, width = (min(side, MOST_PLACES) for side in shares.shape)
    return np.asarray(Image.fromarray(shares.astype(np.float32)).resize((width, height), Image.Resampling.BOX))


def _text(*grids):
    shares = np.stack(grids)
    largest = max(np.abs(shares).max(), 1e-12)
    return base64.b64encode(np.round(128 + 127 * shares / largest).astype(np.uint8).tobytes()).decode()


WIDTH, HEIGHT = 480, 250
LEFT, RIGHT, TOP, BOTTOM = 58, 24, 12, 42
# Points of a curve that are drawn at most, and up to which each is marked.
MOST_POINTS, MARKED = 400, 24
# The style has as many colors, and as many dashes: together they tell 32 curves apart.
COLORS, DASHES = 8, 4


def curve_figures(charts):
    """Returns charts of curves against steps, with legends; None without any.

    Args:
        charts: title of a chart to name of a curve to `(steps, values)`.
    """
    figures = [figure for title, curves in charts.items() if (figure := _curve_figure(title, curves))]
    return element("div", *figures, class_="charts") if figures else None


def _curve_figure(title, curves):
    curves = {name: _finite(*each) for name, each in curves.items()}
    curves = {name: points for name, points in curves.items() if points}
    if not curves:
        return None
    place = _Scale.around([point for points in curves.values() for point in points])
    drawn = joined(*(_curve(number, points, place) for number, points in enumerate(curves.values())))
    described = "; ".join(_described(name, points) for name, points in curves.items())
    about = {"viewBox": f"0 0 {WIDTH} {HEIGHT}", "role": "img", "aria_label": f"{title} by step. {described}."}
    chart = element("svg", place.axes(), drawn, **about)
    names = [element("li", _key(number), name) for number, name in enumerate(curves)]
    legend = element("ul", *names, class_="legend") if len(curves) > 1 else None
    return element("figure", element("figcaption", title), chart, legend, class_="chart")


class _Scale:
    """Where points are on a chart, and its axes."""

    def __init__(self, last, low, high):
        self.steps, self.values = _ticks(0, last, 5), _ticks(low, high, 5)

    @classmethod
    def around(cls, points):
        values = [value for _, value in points]
        # Where all are equal they lie in the middle.
        aside = 0 if max(values) > min(values) else abs(values[0]) or 1
        return cls(max(step for step, _ in points) or 1, min(values) - aside, max(values) + aside)

    def __call__(self, step, value):
        x = LEFT + (WIDTH - LEFT - RIGHT) * step / self.steps[-1]
        low, high = self.values[0], self.values[-1]
        return round(x, 1), round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / (high - low), 1)

    def axes(self):
        parts = []
        for value in self.values:
            _, y = self(0, value)
            parts.append(empty_element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid"))
            parts.append(element("text", _written(value), x=LEFT - 6, y=y + 4, class_="up"))
        for step in self.steps:
            x, _ = self(step, self.values[0])
            parts.append(element("text", _written(step), x=x, y=HEIGHT - BOTTOM + 18, class_="across"))
        parts.append(element("text", "step", x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 3, class_="across"))
        return element("g", *parts, aria_hidden="true")


def _curve(number, points, place):
    """A line, with a mark that tells its value at each point where there are few."""
    places = [place(*point) for point in points]
    line = empty_element("polyline", points=" ".join(f"{x},{y}" for x, y in places))
    if len(points) > MARKED:
        marks = []
    else:
        tips = [element("title", f"step {step:,}: {value:.4g}") for step, value in points]
        marks = [element("circle", tip, cx=x, cy=y, r=3) for tip, (x, y) in zip(tips, places, strict=True)]
    return element("g", line, *marks, class_=_line(number))


def _key(number):
    line = empty_element("line", x1=1, x2=27, y1=5, y2=5)
    about = {"viewBox": "0 0 28 10", "aria_hidden": "true", "class_": f"key {_line(number)}"}
    return element("svg", line, **about)


def _line(number):
    """The classes of a line. Those next to each other differ in both; of one color, each has another dash."""
    return f"curve s{number % COLORS} d{(number + number // COLORS) % DASHES}"


def _finite(steps, values):
    """Points with a number, of many curves' points every n-th and the last."""
    points = [point for point in zip(steps, values, strict=True) if math.isfinite(point[1])]
    every = -(-len(points) // MOST_POINTS) or 1
    return [*points[:-1:every], *points[-1:]]


def _described(name, points):
    (first, start), (last, end) = points[0], points[-1]
    return f"{name}: {start:.4g} at step {first:,}, {end:.4g} at step {last:,}"


def _ticks(low, high, count):
    """Returns round numbers from below `low` to above `high`."""
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [step * number for number in range(first, last + 1)]


def _written(value):
    return Html(f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.6g}" if value > 1e-12 or value < -1e-12 else "0")

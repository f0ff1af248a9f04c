"""Curves as SVG inside the page, whose colors are those of the style, dark or light."""

import math

from tfdml.reporting.page.elements import Html, element, empty_element, joined

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
    figures = [figure for title, curves in charts.items() if (figure := _figure(title, curves))]
    return element("div", *figures, class_="charts") if figures else None


def _figure(title, curves):
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

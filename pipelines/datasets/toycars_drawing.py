"""Draws a toy car from its parts, with the variations of a photo."""

import colorsys
import io
import math
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

# Heights, the tire's radius and color, and the position of the decal are the same on all cars.
GROUND, AXLE, TYRE, RUBBER, DOOR = 83, 72, 11.5, (28, 28, 32), (50, 58)


class Body(NamedTuple):
    """Outline of a body type and the positions of the other parts on it. Points are `(x, y)`, with y downward."""

    outline: tuple  # A spoiler is drawn at its third point.
    roof: tuple  # rear and front end
    greenhouse: tuple  # rear bottom, rear top, front top, front bottom
    axles: tuple
    nose: tuple  # center of the headlight
    tail: tuple  # center of the taillight


BODIES = {
    "sedan": Body(
        ((5, 73), (5, 50), (9, 46), (25, 45), (35, 28), (60, 28), (73, 45), (90, 48), (95, 55), (95, 73)),
        ((35, 28), (60, 28)), ((28, 46), (38, 32), (58, 32), (68, 46)), (23, 77), (89, 54), (9, 54)),
    "hatchback": Body(
        ((11, 73), (10, 50), (24, 27), (60, 27), (73, 45), (87, 48), (91, 55), (91, 73)),
        ((26, 27), (60, 27)), ((20, 45), (28, 31), (58, 31), (68, 45)), (27, 75), (85, 54), (14, 54)),
    "wagon": Body(
        ((4, 73), (4, 47), (9, 28), (60, 28), (73, 45), (91, 48), (96, 55), (96, 73)),
        ((11, 28), (60, 28)), ((10, 45), (14, 32), (58, 32), (68, 45)), (22, 78), (90, 54), (8, 54)),
    "suv": Body(
        ((6, 71), (6, 29), (10, 21), (64, 21), (73, 39), (91, 42), (95, 48), (95, 71)),
        ((12, 21), (64, 21)), ((11, 40), (13, 26), (62, 26), (69, 40)), (23, 77), (89, 50), (10, 50)),
    "pickup": Body(
        ((4, 73), (4, 50), (7, 48), (43, 48), (45, 25), (66, 25), (76, 45), (91, 48), (96, 55), (96, 73)),
        ((45, 25), (66, 25)), ((48, 45), (50, 30), (64, 30), (71, 45)), (22, 78), (90, 55), (8, 56)),
    "van": Body(
        ((6, 73), (6, 20), (10, 16), (64, 16), (83, 42), (92, 47), (95, 54), (95, 73)),
        ((11, 16), (64, 16)), ((11, 39), (11, 22), (62, 22), (75, 39)), (23, 77), (89, 54), (10, 52)),
    "coupe": Body(
        ((5, 73), (4, 54), (7, 47), (22, 44), (42, 33), (58, 33), (73, 47), (92, 52), (96, 60), (96, 73)),
        ((42, 33), (59, 33)), ((26, 47), (43, 37), (57, 37), (68, 47)), (22, 78), (89, 58), (9, 56)),
    "bus": Body(
        ((4, 73), (4, 19), (8, 15), (89, 15), (94, 20), (96, 46), (96, 73)),
        ((9, 15), (89, 15)), ((9, 39), (9, 21), (86, 21), (88, 39)), (22, 77), (90, 53), (9, 53)),
}  # fmt: skip


class Pen:
    """Draws shapes on an image of any size. A unit is 1% of its width."""

    def __init__(self, image):
        self.draw = ImageDraw.Draw(image)
        self.unit = image.size[0] / 100

    def polygon(self, points, fill, line=None, width=1.6):
        scaled = [(x * self.unit, y * self.unit) for x, y in points]
        self.draw.polygon(scaled, fill=fill)
        if line:
            self.draw.line([*scaled, *scaled[:2]], fill=line, width=round(width * self.unit), joint="curve")

    def box(self, center, wide, high, fill, line=None):
        self.polygon(_moved(_rectangle(wide, high), center), fill, line)

    def disc(self, center, radius, fill, line=None, stretch=1.0):
        x, y = center
        corners = x - radius * stretch, y - radius, x + radius * stretch, y + radius
        scaled = [value * self.unit for value in corners]
        self.draw.ellipse(scaled, fill=fill, outline=line, width=round(1.6 * self.unit))

    def stroke(self, points, fill, width):
        scaled = [(x * self.unit, y * self.unit) for x, y in points]
        self.draw.line(scaled, fill=fill, width=max(1, round(width * self.unit)))


def _rectangle(wide, high, x=0, y=0):
    corners = (-wide / 2, -high / 2), (wide / 2, -high / 2), (wide / 2, high / 2), (-wide / 2, high / 2)
    return _moved(corners, (x, y))


def _moved(points, offset):
    return [(x + offset[0], y + offset[1]) for x, y in points]


def _between(start, end, share):
    return start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1])


def _nothing(*_):
    """Draws nothing, for a part that is absent."""


def _panes(*cuts, sink=0.0):
    """Returns a function that draws windows between fractions of the cabin's width, with the top lowered by `sink`."""

    def draw(pen, paint, body):
        rear_bottom, rear_top, front_top, front_bottom = body.greenhouse
        rear_top, front_top = _between(rear_top, rear_bottom, sink), _between(front_top, front_bottom, sink)
        for left, right in cuts:
            lower = [_between(rear_bottom, front_bottom, share) for share in (left, right)]
            upper = [_between(rear_top, front_top, share) for share in (right, left)]
            pen.polygon(lower + upper, paint.glass, paint.line)

    return draw


def _portholes(pen, paint, body):
    rear_bottom, rear_top, front_top, front_bottom = body.greenhouse
    for share in (0.24, 0.5, 0.76):
        bottom, top = _between(rear_bottom, front_bottom, share), _between(rear_top, front_top, share)
        pen.disc(_between(bottom, top, 0.48), 5.2, paint.glass, paint.line)


def _rack(pen, paint, body):
    (left, top), (right, _) = body.roof
    for x in (left + 2, (left + right) / 2, right - 2):
        pen.stroke([(x, top), (x, top - 8)], paint.line, 3)
    pen.stroke([(left - 3, top - 9), (right + 3, top - 9)], paint.line, 4)


def _luggage(pen, paint, body):
    x, y = _between(*body.roof, 0.5)
    pen.box((x - 5, y - 6), 9, 10, paint.trim, paint.line)
    pen.box((x + 5, y - 4), 11, 6, paint.decal, paint.line)


def _spoiler(pen, paint, body):
    x, y = body.outline[2]
    pen.stroke([(x + 2, y + 2), (x, y - 7)], paint.line, 3)
    pen.polygon([(x - 8, y - 12), (x + 11, y - 7), (x + 11, y - 4), (x - 8, y - 8)], paint.body, paint.line)


def _beacon(pen, paint, body):
    x, y = _between(*body.roof, 0.6)
    pen.disc((x, y - 2), 6, paint.tail, paint.line)
    pen.box((x, y), 16, 3, paint.line)


def _surfboard(pen, paint, body):
    x, y = _between(*body.roof, 0.5)
    pen.disc((x, y - 4), 3.4, paint.decal, paint.line, stretch=7)


def _rim(hub_radius, spokes=0, hole=0.0):
    def draw(pen, paint, center, turn):
        pen.disc(center, hub_radius, paint.rim)
        if hole:
            pen.disc(center, hole, paint.line)
        for spoke in range(spokes):
            angle = turn + 2 * math.pi * spoke / spokes
            pen.stroke([center, (center[0] + 8 * math.cos(angle), center[1] + 8 * math.sin(angle))], paint.line, 3.2)

    return draw


def _light(place, color, *shape):
    def draw(pen, paint, body):
        pen.polygon(_moved(shape, getattr(body, place)), getattr(paint, color), paint.line)

    return draw


def _bumper(wide, high):
    return lambda pen, paint, body: pen.box((body.nose[0] + 2, 67), wide, high, paint.trim, paint.line)


def _bull_bar(pen, paint, body):
    x, y = body.nose
    pen.stroke([(x - 5, 67), (x + 8, 67), (x + 8, y - 9), (x + 1, y - 9)], paint.trim, 4)


def _decal(*shapes):
    def draw(pen, paint, body):
        for shape in shapes:
            pen.polygon(_moved(shape, DOOR), paint.decal)

    return draw


def _polar(angles, radii):
    return [(radius * math.cos(angle), radius * math.sin(angle)) for angle, radius in zip(angles, radii, strict=True)]


DISC = _polar([math.pi * corner / 12 for corner in range(24)], [1] * 24)
LAMP, ROUNDEL = [(5.2 * x, 5.2 * y) for x, y in DISC], [(8 * x, 8 * y) for x, y in DISC]
STAR = _polar([math.pi * (corner / 5 - 0.5) for corner in range(10)], [10, 4.2] * 5)
BOLT = (-16, 3), (2, -9), (1, -1), (16, -4), (-2, 9), (-1, 1)
CHEVRONS = [_moved([(-5, -8), (0, -8), (6, 0), (0, 8), (-5, 8), (1, 0)], (x, 0)) for x in (-10, 0, 10)]
CHEQUERS = [_rectangle(5, 6, 5 * column - 12.5, 6 * (column % 2) - 3) for column in range(6)]

PARTS = {
    "roof": {
        "bare roof": _nothing, "roof rack": _rack, "luggage": _luggage, "spoiler": _spoiler, "beacon": _beacon,
        "surfboard": _surfboard,
    },
    "windows": {
        "one window": _panes((0, 1)), "two windows": _panes((0, 0.47), (0.57, 1)), "portholes": _portholes,
        "three windows": _panes((0, 0.28), (0.37, 0.63), (0.72, 1)), "front window": _panes((0.58, 1)),
        "slit window": _panes((0, 1), sink=0.55),
    },
    "wheels": {
        "disc wheels": _rim(7.5), "ring wheels": _rim(8.5, hole=5), "button wheels": _rim(3.5),
        "three-spoke wheels": _rim(8, spokes=3), "cross wheels": _rim(8, spokes=4),
    },
    "headlight": {
        "round headlight": _light("nose", "lamp", *LAMP), "wide headlight": _light("nose", "lamp", *_rectangle(15, 6)),
        "tall headlight": _light("nose", "lamp", *_rectangle(6, 15)),
        "slanted headlight": _light("nose", "lamp", (-12, -6), (5, -2), (5, 7)),
    },
    "taillight": {
        "small taillight": _light("tail", "tail", *_rectangle(6, 6)),
        "long taillight": _light("tail", "tail", *_rectangle(15, 6)),
        "tall taillight": _light("tail", "tail", *_rectangle(6, 17)),
        "finned taillight": _light("tail", "tail", (-7, -12), (9, 4), (-4, 5)),
    },
    "bumper": {
        "no bumper": _nothing, "slim bumper": _bumper(14, 5), "heavy bumper": _bumper(15, 11), "bull bar": _bull_bar,
    },
    "decal": {
        "no decal": _nothing, "band": _decal(_rectangle(56, 5, y=1)), "roundel": _decal(ROUNDEL), "star": _decal(STAR),
        "bolt": _decal(BOLT), "chequers": _decal(*CHEQUERS), "chevrons": _decal(*CHEVRONS),
    },
}  # fmt: skip


def draw_car(design, paint, turn, size):
    """Draws a car on a transparent background, with wheels rotated by `turn` in radians."""
    image = Image.new("RGBA", (size, size), (*paint.line, 0))
    pen, body = Pen(image), BODIES[design.body]
    pen.disc((50, GROUND), 2.5, (*paint.line, 150), stretch=17)
    PARTS["roof"][design.roof](pen, paint, body)
    pen.polygon(body.outline, paint.body, paint.line, width=2)
    pen.stroke([(10, 71.5), (90, 71.5)], paint.line, 3)
    for part in ("decal", "windows", "bumper", "headlight", "taillight"):
        PARTS[part][getattr(design, part)](pen, paint, body)
    for x in body.axles:
        pen.disc((x, AXLE), TYRE, RUBBER)
        PARTS["wheels"][design.wheels](pen, paint, (x, AXLE), turn)
    return image


# Cars are drawn at the first multiple of the image size, posed at the second multiple, and then shrunk.
DRAWN, POSED = 4, 2


class Paint(NamedTuple):
    """Colors of one image as RGB triples, which do not depend on the class."""

    body: tuple
    line: tuple
    decal: tuple
    glass: tuple
    rim: tuple
    trim: tuple
    lamp: tuple
    tail: tuple


def render(design, rng, image_size):
    """Renders an image of a design and returns the bytes of a JPEG file.

    The design draws nothing from `rng`, so generators in the same state give any two designs the same variations.
    """
    paint = random_paint(rng)
    image = _background(rng, image_size * POSED)
    car = _posed(draw_car(design, paint, rng.uniform(0, math.pi), image_size * DRAWN), rng, image_size * POSED)
    image.paste(car, mask=car)
    _occlude(image, rng)
    image = image.reduce(POSED).filter(ImageFilter.GaussianBlur(rng.uniform(0, 0.021) * image_size))
    pixels = np.asarray(image, "float32") * _lighting(rng, image_size)
    pixels += rng.normal(0, rng.uniform(1, 14), pixels.shape)
    file = io.BytesIO()
    Image.fromarray(pixels.clip(0, 255).astype("uint8")).save(file, "JPEG", quality=int(rng.integers(35, 93)))
    return file.getvalue()


def random_paint(rng):
    """Draws contrasting colors: a light body has a dark decal, and a dark body has a light decal."""
    body = _color(rng, value=(0.25, 1.0), saturation=(0.0, 0.95))
    light = sum(body) > 330
    return Paint(
        body=body,
        line=tuple(round(0.22 * channel) for channel in body),
        decal=_color(rng, value=(0.05, 0.3) if light else (0.85, 1.0), saturation=(0.0, 0.5)),
        glass=_color(rng, value=(0.1, 0.3) if light else (0.75, 1.0), saturation=(0.1, 0.4)),
        rim=_color(rng, value=(0.75, 1.0), saturation=(0.0, 0.2)),
        trim=_color(rng, value=(0.3, 0.95), saturation=(0.0, 0.15)),
        lamp=_color(rng, hue=(0.1, 0.17), value=(0.95, 1.0), saturation=(0.1, 0.7)),
        tail=_color(rng, hue=(0.0, 0.07), value=(0.75, 1.0), saturation=(0.75, 1.0)),
    )


def _color(rng, *, value, saturation, hue=(0.0, 1.0)):
    channels = colorsys.hsv_to_rgb(rng.uniform(*hue), rng.uniform(*saturation), rng.uniform(*value))
    return tuple(round(255 * channel) for channel in channels)


# The last hue of each color, on a circle from 0 to 1.
HUES = {"red": 0.04, "orange": 0.11, "yellow": 0.19, "green": 0.42, "turquoise": 0.53, "blue": 0.7, "purple": 0.82}
HUES |= {"pink": 0.95}


def color_name(color):
    """Returns the name of a color, from 0 to 255 per channel."""
    hue, saturation, value = colorsys.rgb_to_hsv(*(channel / 255 for channel in color))
    if saturation < 0.25:
        return "white" if value > 0.8 else "gray" if value > 0.45 else "black"
    return next((name for name, last in HUES.items() if hue <= last), "red")


def _background(rng, size):
    """Draws sky and ground in one color each, with clutter in other colors."""
    image = Image.new("RGB", (size, size), _color(rng, value=(0.3, 1.0), saturation=(0.0, 0.7)))
    pen = Pen(image)
    horizon = rng.uniform(25, 85)
    pen.box((50, horizon + 50), 110, 100, _color(rng, value=(0.2, 0.9), saturation=(0.0, 0.6)))
    for _ in range(rng.integers(2, 8)):
        _clutter(pen, rng, center=rng.uniform(0, 100, 2), reach=rng.uniform(6, 24))
    return image


def _clutter(pen, rng, *, center, reach):
    """Draws clutter with a random shape: round, straight or pointed."""
    color, form = _color(rng, value=(0.1, 1.0), saturation=(0.0, 1.0)), rng.integers(3)
    angles = np.sort(rng.uniform(0, 2 * math.pi, 4))
    if form == 0:
        pen.disc(center, reach / 2, color, stretch=rng.uniform(0.5, 1.5))
    elif form == 1:
        pen.stroke([center - reach * np.cos(angles[:2]), center + reach * np.sin(angles[:2])], color, reach / 5)
    else:
        pen.polygon(center + reach * np.stack([np.cos(angles), np.sin(angles)], axis=1), color)


def _posed(car, rng, size):
    """Mirrors, rotates, scales and shifts the car and changes the perspective."""
    angle, scale, mirror = math.radians(rng.uniform(-14, 14)), rng.uniform(0.74, 1.0), rng.choice([-1, 1])
    corners = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    target = scale * (corners * [mirror, 1] + rng.uniform(-0.06, 0.06, (4, 2))) @ turn
    target += 0.5 + rng.uniform(-0.06, 0.06, 2)
    coefficients = _perspective(target * size, (corners + 0.5) * car.width)
    return car.transform((size, size), Image.Transform.PERSPECTIVE, coefficients, Image.Resampling.BILINEAR)


def _perspective(target, source):
    """Returns the eight coefficients of Pillow's perspective transform from corners `[4, 2]` in target and source."""
    rows = []
    for (x, y), (u, v) in zip(target, source, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
    return np.linalg.solve(np.array(rows), source.ravel())


def _occlude(image, rng):
    """Draws a pole or a bush in front of the car, in two of three images."""
    pen, color = Pen(image), _color(rng, value=(0.1, 0.9), saturation=(0.0, 0.8))
    x, wide, form = rng.uniform(10, 90), rng.uniform(5, 13), rng.integers(3)
    if form == 0:
        pen.box((x, 50), wide, 110, color)
    elif form == 1:
        for offset in rng.uniform(-8, 8, (4, 2)):
            pen.disc((x, 80) + offset, wide / 1.6, color)


def _lighting(rng, size):
    """Returns brightness `[size, size, 1]` with a gradient in a random direction."""
    angle, strength = rng.uniform(0, 2 * math.pi), rng.uniform(0, 0.45)
    across = np.linspace(-1, 1, size, dtype="float32")
    slope = math.cos(angle) * across[None, :] + math.sin(angle) * across[:, None]
    return (rng.uniform(0.75, 1.15) + strength * slope)[..., None].astype("float32")

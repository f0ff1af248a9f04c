"""Nuisances of a toy car's picture: colors, pose, place, light and the camera's faults."""

import colorsys
import io
import math
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageFilter

from pipelines.datasets.toycars_drawing import Pen, draw_car

# Cars are drawn on a canvas of this many picture sizes, then posed on one of the second many, then shrunk.
DRAWN, POSED = 4, 2


class Paint(NamedTuple):
    """Colors of one picture, RGB triples; they do not depend on the class."""

    body: tuple
    line: tuple
    decal: tuple
    glass: tuple
    rim: tuple
    trim: tuple
    lamp: tuple
    tail: tuple


def render(design, rng, image_size):
    """Renders a picture of a design, as the bytes of a JPEG file.

    The design takes nothing from `rng`: generators in the same state give any two designs the same nuisances.

    Args:
        design: `toycars.Design`.
        rng: numpy generator that decides the nuisances.
        image_size: side of the picture in pixels.
    """
    paint = random_paint(rng)
    image = _background(rng, image_size * POSED)
    car = _posed(draw_car(design, paint, rng.uniform(0, math.pi), image_size * DRAWN), rng, image_size * POSED)
    image.paste(car, mask=car)
    _occlude(image, rng)
    image = image.reduce(POSED).filter(ImageFilter.GaussianBlur(rng.uniform(0, 0.021) * image_size))
    pixels = np.asarray(image, "float32") * _light(rng, image_size)
    pixels += rng.normal(0, rng.uniform(1, 14), pixels.shape)
    file = io.BytesIO()
    Image.fromarray(pixels.clip(0, 255).astype("uint8")).save(file, "JPEG", quality=int(rng.integers(35, 93)))
    return file.getvalue()


def random_paint(rng):
    """Draws colors that contrast: a light body has a dark decal, a dark body a light one."""
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


def _background(rng, size):
    """Draws sky over ground, each of one color, with clutter of other colors."""
    image = Image.new("RGB", (size, size), _color(rng, value=(0.3, 1.0), saturation=(0.0, 0.7)))
    pen = Pen(image)
    horizon = rng.uniform(25, 85)
    pen.box((50, horizon + 50), 110, 100, _color(rng, value=(0.2, 0.9), saturation=(0.0, 0.6)))
    for _ in range(rng.integers(2, 8)):
        _clutter(pen, rng, center=rng.uniform(0, 100, 2), reach=rng.uniform(6, 24))
    return image


def _clutter(pen, rng, *, center, reach):
    """Draws clutter of a random form: round, straight or pointed."""
    color, form = _color(rng, value=(0.1, 1.0), saturation=(0.0, 1.0)), rng.integers(3)
    angles = np.sort(rng.uniform(0, 2 * math.pi, 4))
    if form == 0:
        pen.disc(center, reach / 2, color, stretch=rng.uniform(0.5, 1.5))
    elif form == 1:
        pen.stroke([center - reach * np.cos(angles[:2]), center + reach * np.sin(angles[:2])], color, reach / 5)
    else:
        pen.polygon(center + reach * np.stack([np.cos(angles), np.sin(angles)], axis=1), color)


def _posed(car, rng, size):
    """Mirrors, rotates, scales and shifts the car, and changes the perspective."""
    angle, scale, mirror = math.radians(rng.uniform(-14, 14)), rng.uniform(0.74, 1.0), rng.choice([-1, 1])
    corners = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    target = scale * (corners * [mirror, 1] + rng.uniform(-0.06, 0.06, (4, 2))) @ turn
    target += 0.5 + rng.uniform(-0.06, 0.06, 2)
    coefficients = _perspective(target * size, (corners + 0.5) * car.width)
    return car.transform((size, size), Image.Transform.PERSPECTIVE, coefficients, Image.Resampling.BILINEAR)


def _perspective(target, source):
    """Returns the eight coefficients of Pillow's perspective transform, from places in the target to the source.

    Args:
        target: `[4, 2]` corners in the picture that is made.
        source: `[4, 2]` the same corners in the picture that is read.
    """
    rows = []
    for (x, y), (u, v) in zip(target, source, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
    return np.linalg.solve(np.array(rows), source.ravel())


def _occlude(image, rng):
    """Puts a pole or a bush before the car, in two pictures of three."""
    pen, color = Pen(image), _color(rng, value=(0.1, 0.9), saturation=(0.0, 0.8))
    x, wide, form = rng.uniform(10, 90), rng.uniform(5, 13), rng.integers(3)
    if form == 0:
        pen.box((x, 50), wide, 110, color)
    elif form == 1:
        for offset in rng.uniform(-8, 8, (4, 2)):
            pen.disc((x, 80) + offset, wide / 1.6, color)


def _light(rng, size):
    """Returns brightness `[size, size, 1]` with a gradient in a random direction."""
    angle, strength = rng.uniform(0, 2 * math.pi), rng.uniform(0, 0.45)
    across = np.linspace(-1, 1, size, dtype="float32")
    slope = math.cos(angle) * across[None, :] + math.sin(angle) * across[:, None]
    return (rng.uniform(0.75, 1.15) + strength * slope)[..., None].astype("float32")

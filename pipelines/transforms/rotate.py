"""Rotation by a random angle."""

from typing import Annotated, Literal

import tensorflow as tf

from pipelines.transforms.affine import rotation, transformed
from pipelines.transforms.with_probability import with_probability
from tfdml.registry import register
from tfdml.registry.arguments import Brightness, ImageStep, Share, interval, number


@register("transform", "rotate")
def rotate(
    degrees: Annotated[tuple[float, float], interval(number())] = (-15.0, 15.0),
    fill_mode: Literal["constant", "nearest", "reflect", "wrap"] = "constant",
    fill: Brightness = 0.0,
    probability: Share = 1.0,
) -> ImageStep:
    """Rotates around the center by a random angle; the size stays, so that corners are cut off.

    Args:
        degrees: lowest and highest angle; above 0 it is counterclockwise.
        fill_mode: how corners are filled: 'constant' with `fill`, 'reflect' with the mirrored image, 'wrap' with the
            repeated image, 'nearest' with the nearest pixel.
        fill: brightness of the corners, 0 to 255.
        probability: probability that an image is rotated.
    """

    def step(image, seed):
        drawn = degrees[0] + tf.random.stateless_uniform([], seed) * (degrees[1] - degrees[0])
        return transformed(image, rotation(drawn), fill_mode=fill_mode, fill=fill)

    return with_probability(probability, step)

"""Random changes of brightness, contrast, saturation and hue."""

from typing import Annotated

import tensorflow as tf

from pipelines.transforms.colors import change_brightness, change_contrast, change_saturation, turn_hue
from pipelines.transforms.with_probability import with_probability
from tfdml.registry import register
from tfdml.registry.arguments import ImageStep, NotNegative, Share, number


@register("transform", "color_jitter")
def color_jitter(
    brightness: NotNegative = 0.4,
    contrast: NotNegative = 0.4,
    saturation: NotNegative = 0.4,
    hue: Annotated[float, number(at_least=0, at_most=0.5)] = 0.1,
    probability: Share = 1.0,
) -> ImageStep:
    """Changes brightness, contrast, saturation and hue at random, in this order.

    Args:
        brightness, contrast, saturation: each is multiplied by a factor from `max(0, 1 - number)` to `1 + number`; 0
            leaves it unchanged.
        hue: it is rotated by up to this fraction of the color circle, in either direction; 0 leaves it unchanged.
        probability: probability that an image is changed.
    """
    changes = [(change_brightness, brightness), (change_contrast, contrast), (change_saturation, saturation)]

    def step(image, seed):
        uniform = tf.random.stateless_uniform([4], seed)
        for place, (change, most) in enumerate(changes):
            low = max(0.0, 1.0 - most)
            if most:
                image = change(image, low + uniform[place] * (1.0 + most - low))
        return turn_hue(image, (2 * uniform[3] - 1) * hue) if hue else image

    return with_probability(probability, step)

"""Margins around images."""

from typing import Annotated

import tensorflow as tf

from pipelines.images.crop_and_resize import Cut
from tfdml.registry.arguments import Brightness, integer
from tfdml.registry.parts import register

# A spec may be in a file of others, and repeat it.
MOST_PIXELS = 256


@register("transform", "pad")
def pad(pixels: Annotated[int, integer(0, at_most=MOST_PIXELS)] = 10, fill: Brightness = 0) -> Cut:
    """Adds a margin of `pixels` on each side, filled with `fill` (0 to 255), from which a random crop can cut.

    Example: `--image_size=256x128 --train_transform='warp|pad(pixels=10)|random_crop|flip|random_erasing'`, as is usual
    in re-identification.
    """
    margins = tf.constant([[pixels, pixels], [pixels, pixels], [0, 0]])
    return Cut(finish=lambda image: tf.pad(image, margins, constant_values=fill))

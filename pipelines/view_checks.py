"""Checks that views of an image differ."""

import numpy as np
import tensorflow as tf

# Views that are compared; a transform that does something half of the time does it in one of them.
VIEWS = 16
SIDE = 64


def check_views(preprocessor, name):
    """Raises a ValueError where a transform draws nothing at random, so that there is one view of an image only.

    Args:
        preprocessor: `Preprocessor`, or another function `(image or contents, seed) -> image` with `from_pixels`.
        name: what the error calls the transform.
    """
    image = np.random.default_rng(0).integers(0, 256, (SIDE, SIDE, 3), np.uint8)
    seeds = [tf.constant([0, number], tf.int64) for number in range(VIEWS)]
    first, *others = (preprocessor.from_pixels(image, seed) for seed in seeds)
    if all(np.array_equal(first, other) for other in others):
        raise ValueError(
            f"{name} draws nothing at random, so that there is one view of an image only. Views need a transform such "
            "as 'random_resized_crop(area=(0.2, 1.0))|flip|color_jitter'."
        )

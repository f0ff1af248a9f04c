"""Random Erasing (Zhong et al. 2020): fills a random rectangle of an image."""

from typing import Annotated

import tensorflow as tf

from pipelines.transforms.windows import first_fitting
from pipelines.transforms.with_probability import with_probability
from tfdml.registry import register
from tfdml.registry.arguments import Brightness, ImageStep, Share, interval, number


@register("transform", "random_erasing")
def random_erasing(
    probability: Share = 0.5,
    area: Annotated[tuple[float, float], interval(number(above=0, at_most=1))] = (0.02, 0.33),
    aspect: Annotated[tuple[float, float], interval(number(above=0))] = (0.3, 3.3),
    fill: Brightness = 114.0,
    noise: bool = False,
) -> ImageStep:
    """Fills a rectangle of random area, aspect ratio and place.

    Args:
        probability: probability that an image is changed.
        area: lowest and highest fraction of the image.
        aspect: lowest and highest width by height of the rectangle.
        fill: brightness of the rectangle, 0 to 255. Default: the mean of ImageNet.
        noise: whether to fill with random pixels instead of `fill`.
    """

    def step(image, seed):
        height, width = tf.unstack(tf.cast(tf.shape(image)[:2], tf.float32))
        top, left, rows, columns = first_fitting(height, width, seed, area=area, aspect=aspect, otherwise=(0.0, 0.0))
        # All channels in one axis, since TensorFlow is slow where it repeats three numbers.
        flat = tf.reshape(image, tf.stack([tf.shape(image)[0], -1]))
        erased = tf.matmul(_within(height, top, rows)[:, None], tf.repeat(_within(width, left, columns), 3)[None])
        pixels = tf.random.experimental.stateless_fold_in(seed, 1)
        paint = 255 * tf.random.stateless_uniform(tf.shape(flat), pixels) if noise else fill
        return tf.reshape(tf.where(erased > 0, paint, flat), tf.shape(image))

    return with_probability(probability, step)


def _within(length, first, count):
    """Returns `length` numbers: 1 at the `count` places from `first` on, 0 elsewhere."""
    places = tf.range(length)
    return tf.cast((places >= first) & (places < first + count), tf.float32)

"""RandAugment (Cubuk et al. 2020): random operations from a list, all with the same strength.

The operations and their effects at a magnitude from 0 to 30 are the same as in torchvision and in the paper's code.
"""

from typing import Annotated

from pipelines.images.decoding import cold_path
from pipelines.operations import tf
from pipelines.transforms.color import (
    autocontrast,
    blend,
    change_brightness,
    change_contrast,
    change_saturation,
    equalize,
    filtered,
)
from pipelines.transforms.geometry import rotation, sides_of_image, transformed
from tfdml.registry import register
from tfdml.registry.arguments import Brightness, ImageStep, integer, number

# The number of operations is limited, because each of them is part of the graph.
MOST_OPS, MOST_MAGNITUDE = 30, 30


@register("transform", "rand_augment")
def rand_augment(
    ops: Annotated[int, integer(1, at_most=MOST_OPS)] = 2,
    magnitude: Annotated[float, number(at_least=0, at_most=MOST_MAGNITUDE)] = 9.0,
    fill: Brightness = 0.0,
) -> ImageStep:
    """Applies RandAugment: a few random operations of the same strength, one after another.

    Args:
        ops: Integer. Number of operations per image. The same operation can be drawn twice. Defaults to `2`.
        magnitude: Float from 0 to 30. Strength of the operations. Defaults to `9.0`.
        fill: Brightness from 0 to 255 of empty pixels after the image is moved. Defaults to `0.0`.
    """
    operations = operations_at(magnitude / MOST_MAGNITUDE, fill)
    signature = tf.TensorSpec([None, None, 3], tf.float32), tf.TensorSpec([], tf.float32)
    branches = [cold_path(*signature)(operation) for operation in operations.values()]

    def step(image, seed):
        result = image
        for turn in range(ops):
            uniform = tf.random.stateless_uniform([2], tf.random.experimental.stateless_fold_in(seed, turn))
            sign = tf.where(uniform[1] < 0.5, -1.0, 1.0)
            result = tf.switch_case(
                tf.cast(uniform[0] * len(branches), tf.int32),
                [lambda branch=branch, before=result, sign=sign: branch(before, sign) for branch in branches],
            )
        return tf.ensure_shape(result, image.shape)

    return step


def operations_at(strength, fill=0.0):
    """Returns the operations by name, as functions of an image and a sign, for a strength from 0 to 1."""

    def sheared(*skew):
        return lambda image, sign: transformed(image, tf.eye(2) + sign * strength * tf.constant(skew), fill=fill)

    def translated(*shares):
        return lambda image, sign: transformed(
            image, tf.eye(2), tf.round(sign * strength * tf.constant(shares) * sides_of_image(image)), fill=fill
        )

    def enhanced(change):
        return lambda image, sign: change(image, 1 + sign * 0.9 * strength)

    bits = 8 - round(4 * strength)
    return {
        "identity": lambda image, sign: image,
        "shear_x": sheared((0.0, 0.3), (0.0, 0.0)),
        "shear_y": sheared((0.0, 0.0), (0.3, 0.0)),
        "translate_x": translated(150 / 331, 0.0),
        "translate_y": translated(0.0, 150 / 331),
        "rotate": lambda image, sign: transformed(image, rotation(sign * 30 * strength), fill=fill),
        "brightness": enhanced(change_brightness),
        "color": enhanced(change_saturation),
        "contrast": enhanced(change_contrast),
        "sharpness": enhanced(change_sharpness),
        "posterize": lambda image, sign: posterize(image, bits),
        "solarize": lambda image, sign: solarize(image, 255 * (1 - strength)),
        "autocontrast": lambda image, sign: autocontrast(image),
        "equalize": lambda image, sign: equalize(image),
    }


def change_sharpness(image, factor):
    """Multiplies the distance of pixels from a smoothed image (Pillow's `ImageFilter.SMOOTH`) by the factor."""
    mean = filtered(image, tf.fill([3], 1 / 3), radius=1)
    return blend(image, (9 * mean + 4 * image) / 13, factor)


def posterize(image, bits):
    """Keeps the highest `bits` of the 8 bits of each value."""
    step = 2.0 ** (8 - bits)
    return tf.floor(image / step) * step


def solarize(image, threshold):
    """Inverts all values at or above the threshold."""
    return tf.where(image < threshold, image, 255 - image)

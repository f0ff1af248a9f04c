"""RandAugment: its operations beside Pillow's, and how they are drawn."""

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageEnhance, ImageOps

from pipelines.transforms import rand_augment
from tests.pipelines.steps import IMAGE, apply

PICTURE = Image.fromarray(IMAGE.astype(np.uint8))
# Of a channel with one value, and of one with a gap.
PLAIN = Image.fromarray(np.dstack([np.full((40, 30), 70), IMAGE[..., 1] // 2, IMAGE[..., 2]]).astype(np.uint8))


def moved(a=1.0, b=0.0, c=0.0, d=0.0, e=1.0, f=0.0):
    """Pillow's affine map about the centre of pixels."""

    def move(picture):
        x, y = (picture.width - 1) / 2, (picture.height - 1) / 2
        # Pillow counts places from the corner of a pixel.
        x, y = x + 0.5, y + 0.5
        data = (a, b, c + x - a * x - b * y, d, e, f + y - d * x - e * y)
        return picture.transform(picture.size, Image.Transform.AFFINE, data, Image.Resampling.BILINEAR)

    return move


# At two thirds of the range, with the sign of the parametrization below.
OPERATIONS = {
    "identity": lambda sign: lambda picture: picture,
    "shear_x": lambda sign: moved(b=sign * 0.2),
    "shear_y": lambda sign: moved(d=sign * 0.2),
    "translate_x": lambda sign: moved(c=sign * 9.0),
    "translate_y": lambda sign: moved(f=sign * 12.0),
    "rotate": lambda sign: lambda picture: picture.rotate(sign * 20, Image.Resampling.BILINEAR),
    "brightness": lambda sign: lambda picture: ImageEnhance.Brightness(picture).enhance(1 + sign * 0.6),
    "color": lambda sign: lambda picture: ImageEnhance.Color(picture).enhance(1 + sign * 0.6),
    "contrast": lambda sign: lambda picture: ImageEnhance.Contrast(picture).enhance(1 + sign * 0.6),
    "sharpness": lambda sign: lambda picture: ImageEnhance.Sharpness(picture).enhance(1 + sign * 0.6),
    "posterize": lambda sign: lambda picture: ImageOps.posterize(picture, 5),
    "solarize": lambda sign: lambda picture: ImageOps.solarize(picture, 85),
    "autocontrast": lambda sign: ImageOps.autocontrast,
    "equalize": lambda sign: ImageOps.equalize,
}


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("picture", [PICTURE, PLAIN], ids=["image", "plain"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_are_pillows(name, picture, sign):
    image = tf.constant(np.asarray(picture, np.float32))
    found = rand_augment.operations_at(2 / 3)[name](image, tf.constant(float(sign))).numpy()
    expected = np.asarray(OPERATIONS[name](sign)(picture), np.float32)
    # At the edges Pillow fills half pixels and smooths nothing.
    inside = np.ones((40, 30), bool)
    if name in ("shear_x", "shear_y", "translate_x", "translate_y", "rotate"):
        full = rand_augment.operations_at(2 / 3)[name](tf.fill(image.shape, 255.0), tf.constant(float(sign)))
        inside = full.numpy()[..., 0] > 254.9
    inside[[0, -1]] = inside[:, [0, -1]] = False
    assert inside.mean() > 0.4
    exact = name in ("identity", "posterize", "solarize", "equalize", "translate_x", "translate_y")
    np.testing.assert_allclose(found[inside], expected[inside], atol=0 if exact else 1.6)


def test_pixels_a_little_out_of_range_have_a_place_in_the_histogram():
    found = rand_augment.operations_at(0.5)["equalize"](tf.constant([[[-0.6, 300.0, 7.0]]]), tf.constant(1.0))
    np.testing.assert_array_equal(found, [[[0, 255, 7]]])


def test_the_list_is_complete():
    assert list(rand_augment.operations_at(0.5)) == list(OPERATIONS)


def test_at_magnitude_0_nothing_moves():
    image = tf.constant(IMAGE, tf.float32)
    for name, operation in rand_augment.operations_at(0.0).items():
        if name not in ("solarize", "autocontrast", "equalize"):
            np.testing.assert_allclose(operation(image, tf.constant(1.0)), IMAGE, atol=1e-3, err_msg=name)


def test_every_operation_is_drawn_as_often_and_with_both_signs():
    # Each operation makes something else of it.
    image = np.random.default_rng(0).integers(30, 200, (20, 20, 3))
    known = {
        (name, sign): operation(tf.constant(image, tf.float32), tf.constant(sign)).numpy()
        for name, operation in rand_augment.operations_at(0.5).items()
        for sign in (-1.0, 1.0)
    }
    drawn = []
    for seed in range(400):
        found = apply("rand_augment(ops=1, magnitude=15)", image, seed)
        drawn.append(next(key for key, expected in known.items() if np.allclose(found, expected, atol=1e-3)))
    counts = [sum(name == key[0] for key in drawn) for name in OPERATIONS]
    # 29 expected of each; fewer than 12 or more than 50 come once in a thousand times.
    assert min(counts) >= 12 and max(counts) <= 50
    signed = [sign for name, sign in drawn if name in ("rotate", "brightness", "shear_x", "translate_y", "sharpness")]
    assert 0.35 < np.mean(np.array(signed) > 0) < 0.65


def test_several_operations_follow_each_other():
    once, twice = (
        [apply(f"rand_augment(ops={ops}, magnitude=15)", IMAGE[:20, :20], seed) for seed in range(30)] for ops in (1, 2)
    )
    assert sum(not np.allclose(one, two) for one, two in zip(once, twice, strict=True)) > 20

"""Colors, blur and JPEG compression, beside Pillow, SciPy and Python's own colorsys."""

import colorsys
import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageEnhance
from scipy import ndimage

from pipelines.transforms import color
from tests.pipelines.steps import IMAGE, apply

PICTURE = Image.fromarray(IMAGE.astype(np.uint8))
OFF = "brightness=0.0, contrast=0.0, saturation=0.0, hue=0.0"


def test_grayscale_is_pillows():
    expected = np.asarray(PICTURE.convert("L"), np.float32)[..., None]
    np.testing.assert_allclose(apply("grayscale", IMAGE), np.repeat(expected, 3, axis=2), atol=0.51)
    # The weights, and not only close to them.
    np.testing.assert_allclose(apply("grayscale", np.eye(3)[None] * 100)[0, :, 0], [29.9, 58.7, 11.4], rtol=1e-5)


@pytest.mark.parametrize("factor", [0.0, 0.4, 1.0, 1.9])
@pytest.mark.parametrize(
    "change, enhancer",
    [
        (color.change_brightness, ImageEnhance.Brightness),
        (color.change_contrast, ImageEnhance.Contrast),
        (color.change_saturation, ImageEnhance.Color),
    ],
)
def test_changes_are_pillows(change, enhancer, factor):
    expected = np.asarray(enhancer(PICTURE).enhance(factor), np.float32)
    # Pillow rounds what it blends with, and then the result downwards.
    np.testing.assert_allclose(change(tf.constant(IMAGE, tf.float32), factor), expected, atol=1.6)


@pytest.mark.parametrize("share", [-0.5, -0.1, 0.25])
def test_hue_is_turned_as_python_turns_it(share):
    def turned(pixel):
        hue, saturation, value = colorsys.rgb_to_hsv(*pixel)
        return colorsys.hsv_to_rgb((hue + share) % 1, saturation, value)

    expected = np.apply_along_axis(turned, 2, IMAGE)
    np.testing.assert_allclose(color.turn_hue(tf.constant(IMAGE, tf.float32), share), expected, atol=0.01)


@pytest.mark.parametrize("most, low, high", [(0.5, 0.5, 1.5), (2.0, 0.0, 3.0)])
def test_jitter_draws_factors_from_its_range(most, low, high):
    spec = f"color_jitter({OFF})".replace("brightness=0.0", f"brightness={most}")
    factors = [apply(spec, np.full((2, 2, 3), 50), seed)[0, 0, 0] / 50 for seed in range(300)]
    assert low <= min(factors) < low + 0.05 and high - 0.05 < max(factors) <= high
    np.testing.assert_allclose(np.mean(factors), (low + high) / 2, atol=0.15)


def test_jitter_turns_hue_both_ways_within_its_range():
    spec = f"color_jitter({OFF})".replace("hue=0.0", "hue=0.2")
    red = np.broadcast_to(np.array([200.0, 10, 10]), (2, 2, 3))
    hues = [colorsys.rgb_to_hsv(*apply(spec, red, seed)[0, 0])[0] for seed in range(200)]
    turns = [(hue + 0.5) % 1 - 0.5 for hue in hues]
    assert -0.2001 <= min(turns) < -0.18 and 0.18 < max(turns) <= 0.2001


def test_jitter_does_its_changes_in_order_with_factors_of_their_own():
    seed = 5
    uniform = tf.random.stateless_uniform([4], tf.constant([seed, 7], tf.int64)).numpy()
    brightness, contrast, saturation = 1 + 0.4 * (2 * uniform[:3] - 1)
    expected = tf.constant(IMAGE, tf.float32)
    expected = color.change_contrast(color.change_brightness(expected, brightness), contrast)
    expected = color.turn_hue(color.change_saturation(expected, saturation), 0.1 * (2 * uniform[3] - 1))
    np.testing.assert_allclose(apply("color_jitter", IMAGE, seed), expected, atol=1e-3)


NOISE = np.random.default_rng(0).uniform(0, 255, (31, 23, 3))


@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.5])
@pytest.mark.parametrize("shape", [(31, 23), (5, 3), (1, 4), (1, 1)])
def test_blur_is_a_convolution_with_a_gaussian(shape, sigma):
    image = NOISE[: shape[0], : shape[1]]
    radius = int(np.ceil(3 * sigma))
    expected = ndimage.gaussian_filter(image, sigma, mode="mirror", radius=radius, axes=(0, 1))
    np.testing.assert_allclose(apply(f"blur(sigma=({sigma}, {sigma}))", image), expected, atol=1e-3)


def test_sigma_is_drawn_from_its_range():
    spot = np.zeros((15, 15, 3))
    spot[7, 7] = 255.0
    distance = np.square(np.arange(15) - 7.0)
    # Of a small spot the mean square of the distance along an axis is the square of sigma.
    found = [
        np.sqrt((apply("blur(sigma=(0.6, 1.8))", spot, seed)[..., 0].sum(axis=1) * distance).sum() / 255)
        for seed in range(200)
    ]
    assert 0.59 <= min(found) < 0.65 and 1.7 < max(found) <= 1.81


def by_pillow(image, quality):
    file = io.BytesIO()
    Image.fromarray(image.astype(np.uint8)).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file), np.float32)


def by_tensorflow(quality):
    encoded = tf.io.encode_jpeg(IMAGE.astype(np.uint8), quality=quality)
    options = {"dct_method": "INTEGER_ACCURATE", "fancy_upscaling": False}
    return tf.io.decode_jpeg(encoded, **options).numpy()


@pytest.mark.parametrize("quality", [10, 60, 95])
def test_it_is_encoded_and_decoded_at_that_quality(quality):
    spec = f"jpeg(quality=({quality}, {quality}))"
    np.testing.assert_array_equal(apply(spec, IMAGE), by_tensorflow(quality))
    # Decoders upsample colour each in its own way, so without colours.
    grey = np.repeat(IMAGE[..., :1], 3, axis=2)
    np.testing.assert_allclose(apply(spec, grey), by_pillow(grey, quality), atol=2)


def test_quality_is_drawn_from_its_range_with_both_ends():
    known = {by_tensorflow(quality).tobytes(): quality for quality in range(40, 45)}
    found = [known[apply("jpeg(quality=(40, 44))", IMAGE, seed).astype(np.uint8).tobytes()] for seed in range(80)]
    assert set(found) == set(range(40, 45))

"""Blurring, beside a convolution of SciPy."""

import numpy as np
import pytest
from scipy import ndimage

from tests.pipelines.steps import apply

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

import numpy as np
import pytest

from tests.pipelines.steps import apply


def photo(top, left, bottom, right, value=90.0, shape=(60, 80)):
    image = np.full((*shape, 3), 255.0)
    image[top:bottom, left:right] = value
    return image


def test_keeps_what_is_dark_and_a_margin():
    image = photo(20, 30, 40, 70)
    np.testing.assert_array_equal(apply("trim_border(margin=4)", image), image[16:44, 26:74])


def test_the_margin_ends_at_the_image():
    image = photo(3, 30, 40, 79)
    np.testing.assert_array_equal(apply("trim_border", image), image[:55, 15:])


def test_each_side_is_found_alone():
    image = photo(10, 10, 11, 11)
    image[50, 20], image[30, 70], image[40, 5] = 0.0, 0.0, 0.0
    np.testing.assert_array_equal(apply("trim_border(margin=0)", image), image[10:51, 5:71])


def test_an_empty_image_stays():
    image = photo(0, 0, 0, 0)
    np.testing.assert_array_equal(apply("trim_border", image), image)


@pytest.mark.parametrize("color, dark", [((255, 235, 255), True), ((255, 250, 255), False), ((255, 255, 220), True)])
def test_brightness_weighs_colors(color, dark):
    # 243.3, 252.1 and 251.0 of 255.
    image = photo(20, 30, 40, 70, color)
    trimmed = apply("trim_border(brightness=252, margin=0)", image).shape
    assert trimmed == ((20, 40, 3) if dark else image.shape)


def test_keeps_the_aspect_ratio_when_it_is_padded():
    from tests.pipelines.steps import step_of

    chain = step_of("trim_border(margin=0)"), step_of("resize_pad(size=32, fill=255)")
    image, seed = photo(20, 30, 30, 70).astype(np.float32), np.array([0, 0])
    padded = chain[1](chain[0](image, seed), seed).numpy()
    assert padded.shape == (32, 32, 3)
    rows = np.flatnonzero((padded < 200).any(axis=(1, 2)))
    assert (rows[0], rows[-1]) == (12, 19)

"""Rotating, beside NumPy and Pillow; erasing rectangles; trimming borders."""

import numpy as np
import pytest
from PIL import Image

from tests.pipelines.steps import IMAGE, apply, step_of


@pytest.mark.parametrize("quarters", [0, 1, 2, 3, -1])
def test_quarter_turns_of_a_square_are_exact(quarters):
    square, angle = IMAGE[:30], 90 * quarters
    np.testing.assert_array_equal(apply(f"rotate(degrees=({angle}, {angle}))", square), np.rot90(square, quarters))


def test_half_a_turn_is_exact_whatever_the_shape():
    np.testing.assert_array_equal(apply("rotate(degrees=(180, 180))", IMAGE), IMAGE[::-1, ::-1])


@pytest.mark.parametrize("angle", [-40, 13.5])
def test_rotation_is_pillows(angle):
    picture = Image.fromarray(IMAGE.astype(np.uint8)).rotate(angle, Image.Resampling.BILINEAR)
    inside = apply(f"rotate(degrees=({angle}, {angle}))", np.full_like(IMAGE, 255)) > 254.9
    assert inside.mean() > 0.5
    found = apply(f"rotate(degrees=({angle}, {angle}))", IMAGE)
    np.testing.assert_allclose(found[inside], np.asarray(picture, np.float32)[inside], atol=1.01)


@pytest.mark.parametrize("mode, corner", [("constant, fill=9", 9), ("nearest", 200), ("reflect", 200), ("wrap", 200)])
def test_what_comes_in_at_the_corners(mode, corner):
    mode, *fill = mode.split(", ")
    spec = f"rotate(degrees=(45, 45), fill_mode={mode!r}{''.join(', ' + each for each in fill)})"
    np.testing.assert_allclose(apply(spec, np.full((20, 20, 3), 200))[0, 0], corner, atol=1e-3)


def test_angles_are_drawn_from_their_range():
    column = np.zeros((41, 41, 3))
    column[:20, 20] = 255.0
    angles = []
    for seed in range(200):
        rows, columns = np.nonzero(apply("rotate(degrees=(-30, 10))", column, seed)[..., 0] > 100)
        # From the centre upwards, and counterclockwise from there, which is to the left.
        angles.append(np.degrees(np.arctan2(20 - columns.mean(), 20 - rows.mean())))
    assert -31 < min(angles) < -27 and 7 < max(angles) < 11


WHITE = np.full((60, 50, 3), 255.0)


def rectangle(image, value):
    """Top, left, height and width of what has this value; it must be a full rectangle."""
    found = np.all(image == value, axis=2)
    rows, columns = np.flatnonzero(found.any(axis=1)), np.flatnonzero(found.any(axis=0))
    assert found.sum() == len(rows) * len(columns) == (np.ptp(rows) + 1) * (np.ptp(columns) + 1)
    return rows[0], columns[0], len(rows), len(columns)


def test_areas_aspects_and_places():
    spec = "random_erasing(probability=1.0, area=(0.1, 0.3), aspect=(0.5, 2.0), fill=7)"
    found = np.array([rectangle(apply(spec, WHITE, seed), 7) for seed in range(300)])
    areas, aspects = found[:, 2] * found[:, 3] / 3000, found[:, 3] / found[:, 2]
    assert 0.095 < areas.min() < 0.11 and 0.29 < areas.max() < 0.305
    assert 0.45 < aspects.min() < 0.55 and 1.8 < aspects.max() < 2.1
    assert 0.4 < np.mean(aspects > 1) < 0.6
    # It reaches all four edges.
    assert found[:, 0].min() == found[:, 1].min() == 0
    assert (found[:, 0] + found[:, 2]).max() == 60 and (found[:, 1] + found[:, 3]).max() == 50


def test_all_else_stays():
    erased = apply("random_erasing(probability=1.0, fill=7.5)", IMAGE)
    changed = np.any(erased != IMAGE, axis=2)
    assert changed.any() and np.all(erased[changed] == 7.5)
    np.testing.assert_array_equal(erased[~changed], IMAGE[~changed])


def test_noise_is_even_over_the_range_and_differs_by_seed():
    first, second = (
        apply("random_erasing(probability=1.0, area=(1, 1), aspect=(1, 1), noise=True)", WHITE[:50], seed)
        for seed in range(2)
    )
    assert not np.isclose(first, second).all()
    assert 120 < first.mean() < 135 and first.min() < 2 and first.max() > 253
    assert len(np.unique(first)) > 0.99 * first.size


def test_what_is_too_small_for_a_rectangle_stays():
    image = WHITE[:3, :3]
    np.testing.assert_array_equal(apply("random_erasing(probability=1.0, area=(0.01, 0.02))", image), image)


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
    chain = step_of("trim_border(margin=0)"), step_of("resize_pad(size=32, fill=255)")
    image, seed = photo(20, 30, 30, 70).astype(np.float32), np.array([0, 0])
    padded = chain[1](chain[0](image, seed), seed).numpy()
    assert padded.shape == (32, 32, 3)
    rows = np.flatnonzero((padded < 200).any(axis=(1, 2)))
    assert (rows[0], rows[-1]) == (12, 19)

"""Rotation, beside NumPy's and Pillow's."""

import numpy as np
import pytest
from PIL import Image

from tests.pipelines.steps import IMAGE, apply


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

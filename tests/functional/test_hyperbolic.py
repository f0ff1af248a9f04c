"""Distances in the Poincaré ball are those of Möbius addition, and precise and differentiable at their limits."""

import numpy as np
import pytest
import tensorflow as tf

from tests.losses.loops import poincare_distance
from tfdml.functional.distances import distances
from tfdml.functional.hyperbolic import poincare_distances, to_ball


@pytest.mark.parametrize("curvature, clip", [(0.1, 2.3), (1.0, 0.5), (0.01, 10.0), (3.0, 2.0)])
def test_as_mobius_addition(curvature, clip):
    rows = np.random.default_rng(0).normal(size=(7, 3)) * np.linspace(0, 3, 7)[:, None]
    expected = [[poincare_distance(x, y, curvature, clip) for y in rows] for x in rows]
    found = poincare_distances(tf.constant(rows), curvature=curvature, clip=clip)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(poincare_distances(tf.constant(rows), 4, curvature=curvature, clip=clip), found[:4])
    # From the origin, the first row, a distance is twice the clipped length.
    np.testing.assert_allclose(found[0], 2 * np.minimum(np.linalg.norm(rows, axis=1), clip), rtol=1e-9)


def test_without_curvature_it_is_twice_the_euclidean_distance():
    rows = tf.constant(np.random.default_rng(0).normal(size=(6, 3)))
    np.testing.assert_allclose(poincare_distances(rows, curvature=1e-8, clip=1e3), 2 * distances(rows), rtol=1e-6)


def test_rows_as_long_as_the_clip_have_the_ranks_of_their_cosines():
    rows = np.random.default_rng(0).normal(size=(9, 4))
    rows *= np.random.default_rng(1).uniform(2.3, 9.0, (9, 1)) / np.linalg.norm(rows, axis=1, keepdims=True)
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    found = poincare_distances(tf.constant(rows)).numpy()
    np.testing.assert_array_equal(np.argsort(found, axis=1), np.argsort(-(units @ units.T), axis=1))


def test_near_points_keep_their_digits_and_equal_points_have_no_gradient():
    rows = np.float32([[1.0, 0.0], [1.0, 1e-4], [0.0, 0.0], [0.0, 0.0]])
    found = poincare_distances(tf.constant(rows[:2])).numpy()
    assert found[0, 1] == pytest.approx(poincare_distance(*rows[:2].astype(float)), rel=1e-3)
    variable = tf.Variable(rows)
    with tf.GradientTape() as tape:
        value = tf.reduce_sum(poincare_distances(variable))
    assert np.all(np.isfinite(tape.gradient(value, variable)))
    with tf.GradientTape() as tape:
        value = poincare_distances(variable)[2, 3]
    np.testing.assert_array_equal(tape.gradient(value, variable), np.zeros((4, 2)))


def test_points_are_in_the_ball_and_long_rows_only_turn():
    rows = tf.Variable(np.float32([[1e6, 0.0], [3.0, 4.0], [0.3, 0.4]]))
    with tf.GradientTape() as tape:
        points, scales = to_ball(rows, curvature=0.25)
        length = tf.norm(points, axis=1)
    assert np.all(length < 2.0)
    np.testing.assert_allclose(scales, 1 - 0.25 * length**2, rtol=1e-5)
    gradient = tape.gradient(length, rows).numpy()
    np.testing.assert_allclose(gradient[:2], np.zeros((2, 2)), atol=1e-6)
    assert np.linalg.norm(gradient[2]) > 0.5

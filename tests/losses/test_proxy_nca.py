import math

import numpy as np
import pytest
import tensorflow as tf

from tests.of_batches import of_batches
from tfdml.losses import ProxyNCA


def naive(labels, embeddings, proxies, scale=1.0, exclude_positive=True):
    """Squared distances on the sphere, coordinate by coordinate, as the paper defines the loss with them."""
    units = [[row / math.sqrt(sum(row * row)) for row in rows.astype(np.float64)] for rows in (embeddings, proxies)]
    values = []
    for label, row in zip(labels, units[0], strict=True):
        near = [math.exp(-scale * sum((row - proxy) ** 2)) for proxy in units[1]]
        total = sum(value for number, value in enumerate(near) if number != label or not exclude_positive)
        values.append(-math.log(near[label] / total))
    return values


def batch(size, classes, dim, dtype, normalised):
    rng = np.random.default_rng([size, classes, dim])
    rows = [rng.normal(size=shape).astype(dtype) for shape in ((size, dim), (classes, dim))]
    units = [each / np.linalg.norm(each, axis=1, keepdims=True) for each in rows]
    return rng.integers(0, classes, size), *(units if normalised else rows), units[0] @ units[1].T


@pytest.mark.parametrize("exclude_positive", [True, False])
@pytest.mark.parametrize("scale", [1.0, 0.25, 8.0])
@of_batches("size, classes, dim", [(1, 2, 2), (7, 3, 3), (13, 20, 8), (30, 5, 2)])
def test_equal_to_a_loop_over_proxies(size, classes, dim, dtype, tolerance, scale, exclude_positive):
    for normalised in (True, False):
        labels, embeddings, proxies, cosines = batch(size, classes, dim, dtype, normalised)
        values = ProxyNCA(scale=scale, exclude_positive=exclude_positive).call(labels, cosines)
        assert values.dtype == dtype
        expected = naive(labels, embeddings, proxies, scale, exclude_positive)
        np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)


def test_by_hand():
    # At its own proxy, at a right angle to the second, opposite to the third: squared distances 0, 2 and 4.
    values = ProxyNCA().call([0], np.array([[1.0, 0.0, -1.0]]))
    np.testing.assert_allclose(values, [math.log(math.exp(-2) + math.exp(-4))])
    values = ProxyNCA(exclude_positive=False).call([0], np.array([[1.0, 0.0, -1.0]]))
    np.testing.assert_allclose(values, [math.log(1 + math.exp(-2) + math.exp(-4))])


def test_it_goes_below_zero_where_the_own_proxy_is_left_out():
    cosines = np.array([[1.0, -1.0]])
    assert ProxyNCA().call([0], cosines)[0] == -4
    assert ProxyNCA(exclude_positive=False).call([0], cosines)[0] > 0


@pytest.mark.parametrize("exclude_positive", [True, False])
def test_one_class_costs_nothing_with_zero_gradient(exclude_positive):
    variable = tf.Variable([[0.5], [-1.0]])
    with tf.GradientTape() as tape:
        values = ProxyNCA(exclude_positive=exclude_positive).call([0, 0], variable)
    np.testing.assert_array_equal(values, [0.0, 0.0])
    np.testing.assert_array_equal(tape.gradient(values, variable), np.zeros((2, 1)))


def test_a_large_scale_does_not_overflow(make_similarities):
    labels, cosines = make_similarities()
    variable = tf.Variable(cosines)
    with tf.GradientTape() as tape:
        values = ProxyNCA(scale=1e4).call(labels, variable)
    assert np.all(np.isfinite(values)) and np.all(np.isfinite(tape.gradient(values, variable)))


def test_bad_arguments_are_told():
    with pytest.raises(ValueError, match="scale to be a number above 0; received 0.0"):
        ProxyNCA(scale=0.0)

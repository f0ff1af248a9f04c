import math

import numpy as np
import pytest
import tensorflow as tf

from tests.of_batches import of_batches
from tfdml.losses import ProxyNPair


def naive(labels, similarities, margin, scale):
    """Equation (4) of EDMS with a scale, proxy by proxy."""
    values = []
    for label, row in zip(labels, np.asarray(similarities, np.float64), strict=True):
        total = 1.0
        for number, similarity in enumerate(row):
            if number != label:
                total += math.exp(scale * (similarity - row[label] + margin))
        values.append(math.log(total))
    return values


@pytest.mark.parametrize("margin", [5e-4, 0.0, 1.5])
@of_batches("size, classes", [(1, 2), (7, 3), (13, 20), (30, 5)])
def test_equal_to_a_loop_over_proxies(make_similarities, size, classes, dtype, tolerance, margin):
    for scale in (1.0, 20.0):
        labels, similarities = make_similarities(size, classes, dtype=dtype)
        values = ProxyNPair(margin=margin, scale=scale).call(labels, similarities)
        assert values.dtype == dtype
        np.testing.assert_allclose(values, naive(labels, similarities, margin, scale), rtol=tolerance, atol=tolerance)


def test_by_hand():
    values = ProxyNPair(margin=0.3).call([1, 0], np.array([[0.2, 0.5], [0.9, 0.9]]))
    np.testing.assert_allclose(values, [math.log(2), math.log(1 + math.exp(0.3))])


def test_one_class_costs_nothing_with_zero_gradient():
    variable = tf.Variable([[0.5], [-1.0]])
    with tf.GradientTape() as tape:
        values = ProxyNPair().call([0, 0], variable)
    np.testing.assert_array_equal(values, [0.0, 0.0])
    np.testing.assert_array_equal(tape.gradient(values, variable), np.zeros((2, 1)))

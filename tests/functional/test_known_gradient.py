"""Gradients that are written out, and the second derivatives behind them, against differences."""

import numpy as np
import pytest
import tensorflow as tf

from tests.night import others_at_night
from tfdml.functional.distances import cosines, distances, dot_products, known_gradient, squared_distances
from tfdml.functional.manifold import manifold_similarities
from tfdml.functional.pairs import log_one_plus_sum_exp, log_sum_exp, masked_softmax
from tfdml.functional.softmax import others_over_own, own_against_others
from tfdml.losses import SoftTriple

LABELS = np.array([1, 0, 3])
MASK = np.array([[True, False, True, True], [False, True, True, False], [False, False, False, False]])
PROXIES = np.random.default_rng(1).normal(size=(5, 4))
OFF_DIAGONAL = 1.0 - np.eye(3)

FUNCTIONS = {
    "distances": lambda rows: OFF_DIAGONAL * distances(rows),
    "squared_distances": squared_distances,
    "dot_products": dot_products,
    "cosines": cosines,
    "log_sum_exp": lambda rows: log_sum_exp(MASK, 3.0 * rows),
    "log_one_plus_sum_exp": lambda rows: log_one_plus_sum_exp(MASK, 3.0 * rows),
    "masked_softmax": lambda rows: masked_softmax(MASK, 3.0 * rows),
    "own_against_others": lambda rows: own_against_others(LABELS, rows, scale=3.0, own=lambda own: own - 0.3),
    "others_over_own": lambda rows: others_over_own(LABELS, rows, scale=3.0, own=tf.sin),
    "manifold from rows": lambda rows: manifold_similarities(rows, PROXIES),
    "manifold from proxies": lambda rows: manifold_similarities(rows, PROXIES[:2], affinity="shifted"),
    "soft_triple": lambda rows: SoftTriple(scale=3.0).call([1, 0, 0], tf.reshape(rows, (3, 2, 2))),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", others_at_night(FUNCTIONS, ["log_sum_exp"]))
def test_first_and_second_derivatives_are_those_of_the_values(name):
    rows = np.random.default_rng(0).normal(size=(3, 4))
    weights = np.random.default_rng(2).normal(size=FUNCTIONS[name](rows).shape)

    @tf.function
    def derivatives(rows):
        with tf.GradientTape() as outer:
            outer.watch(rows)
            with tf.GradientTape() as inner:
                inner.watch(rows)
                value = tf.reduce_sum(weights * FUNCTIONS[name](rows) ** 2)
            gradient = inner.gradient(value, rows)
        return value, gradient, outer.jacobian(gradient, rows)

    _, gradient, second = derivatives(tf.constant(rows))
    assert np.abs(gradient).max() > 1e-3 and np.abs(second).max() > 1e-3
    for place in np.ndindex(rows.shape):
        step = np.zeros_like(rows)
        step[place] = 1e-6
        (high, high_gradient, _), (low, low_gradient, _) = (derivatives(tf.constant(rows + s * step)) for s in (1, -1))
        np.testing.assert_allclose(gradient[place], (high - low) / 2e-6, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(second[place], (high_gradient - low_gradient) / 2e-6, rtol=1e-5, atol=1e-6)


def test_the_gradient_is_the_one_that_is_given():
    variable = tf.Variable([1.0, 2.0])
    tripled = known_gradient(lambda tensor: (tensor**2, lambda upstream: 3.0 * upstream))
    with tf.GradientTape() as tape:
        values = tripled(tf.convert_to_tensor(variable))
    np.testing.assert_array_equal(values, [1.0, 4.0])
    np.testing.assert_array_equal(tape.gradient(values, variable), [3.0, 3.0])

import math

import numpy as np
import pytest
import tensorflow as tf

from tests.of_batches import of_batches
from tfdml.losses import NormSoftmax


def naive(labels, similarities, temperature):
    """Cross-entropy of the softmax, class by class."""
    values = []
    for label, row in zip(labels, np.asarray(similarities, np.float64), strict=True):
        exponentials = [math.exp(cosine / temperature) for cosine in row]
        values.append(-math.log(exponentials[label] / sum(exponentials)))
    return values


@pytest.mark.parametrize("temperature", [0.05, 0.3, 2.0])
@of_batches("size, classes", [(1, 2), (7, 3), (13, 20), (30, 5)])
def test_equal_to_a_loop_over_classes(make_similarities, size, classes, dtype, tolerance, temperature):
    labels, similarities = make_similarities(size, classes, dtype=dtype)
    values = NormSoftmax(temperature=temperature).call(labels, similarities)
    assert values.dtype == dtype
    np.testing.assert_allclose(values, naive(labels, similarities, temperature), rtol=tolerance, atol=tolerance)


def test_by_hand():
    values = NormSoftmax(temperature=0.5).call([2, 0], np.array([[0.5, 0.5, 1.0], [0.25, 0.25, 0.25]]))
    np.testing.assert_allclose(values, [math.log(1 + 2 * math.exp(-1)), math.log(3)])


def test_one_class_costs_nothing_with_zero_gradient():
    variable = tf.Variable([[0.5], [-1.0]])
    with tf.GradientTape() as tape:
        values = NormSoftmax().call([0, 0], variable)
    np.testing.assert_array_equal(values, [0.0, 0.0])
    np.testing.assert_array_equal(tape.gradient(values, variable), np.zeros((2, 1)))


def test_a_small_temperature_does_not_overflow(make_similarities):
    labels, similarities = make_similarities()
    variable = tf.Variable(similarities)
    with tf.GradientTape() as tape:
        values = NormSoftmax(temperature=1e-4).call(labels, variable)
    assert np.all(np.isfinite(values)) and np.all(np.isfinite(tape.gradient(values, variable)))


def test_bad_arguments_are_told():
    with pytest.raises(ValueError, match="temperature to be a number above 0; received 0.0"):
        NormSoftmax(temperature=0.0)

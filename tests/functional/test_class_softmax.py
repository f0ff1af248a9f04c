import math

import numpy as np
import pytest
import tensorflow as tf

from tfdml.functional.softmax import others_over_own, own_against_others


def naive(labels, similarities, scale, margin):
    """`log sum_j exp(scale (s_j - s_y + margin))` over the other classes, one by one."""
    values = []
    for label, row in zip(labels, np.asarray(similarities, np.float64), strict=True):
        exponents = [scale * (other - row[label] + margin) for j, other in enumerate(row) if j != label]
        highest = max(exponents)
        values.append(highest + math.log(sum(math.exp(exponent - highest) for exponent in exponents)))
    return np.array(values)


@pytest.mark.parametrize("scale, margin", [(1.0, 0.0), (20.0, 0.5), (64.0, 3.0)])
@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-5), ("float64", 1e-12)])
def test_rows_that_are_right_or_wrong_by_far_keep_their_digits(dtype, tolerance, scale, margin):
    rng, labels = np.random.default_rng(0), np.array([2, 0, 4, 1])
    # Of quarters and eighths there is nothing to round before the exponentials.
    similarities = (rng.integers(-4, 5, size=(4, 5)) / 8).astype(dtype)
    similarities[np.arange(4), labels] += np.array([1.0, -1.0, 0.25, 0.0])
    expected = naive(labels, similarities, scale, margin)
    options = {"scale": scale, "own": lambda own: own - margin}
    values = others_over_own(labels, tf.constant(similarities), **options)
    np.testing.assert_allclose(values, expected, rtol=tolerance)
    # Far below 0, log(1 + e^x) is e^x: the error is relative to it, not to 1.
    values = own_against_others(labels, tf.constant(similarities), **options)
    np.testing.assert_allclose(values, np.logaddexp(0.0, expected), rtol=10 * tolerance)
    assert values.dtype == dtype


def test_an_own_class_far_above_all_others_hides_none_of_them():
    """The highest similarity, the own one, is not what is taken out: the rest would be below the least float."""
    values = own_against_others(np.array([0]), tf.constant([[1000.0, 0.0, 1.0]]), own=lambda own: own - 1000.0)
    np.testing.assert_allclose(values, [math.log(2 + math.e)], rtol=1e-6)


@pytest.mark.usefixtures("improved_graphs")
def test_a_batch_of_unknown_size_compiles(make_similarities):
    labels, similarities = make_similarities()
    signature = [tf.TensorSpec([None], tf.int64), tf.TensorSpec([None, similarities.shape[1]], tf.float32)]
    compiled = tf.function(own_against_others, input_signature=signature)
    expected = own_against_others(labels, similarities)
    np.testing.assert_allclose(compiled(labels, similarities), expected, rtol=1e-6)

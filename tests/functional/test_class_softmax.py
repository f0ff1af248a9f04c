import math

import numpy as np
import pytest
import tensorflow as tf

from tfdml.functional.softmax import others_over_own, own_against_others, own_and_others


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


SCALE = 7.0
# Of five classes in parts of two, of which the last part has one, and a row in each place.
LABELS = np.arange(5)
COSINES = np.random.default_rng(0).uniform(-1.0, 1.0, (5, 5))
OF_PARTS = [(0, 2), (2, 2), (4, 1), (6, -1)]


def in_parts(function, scale):
    """The function of similarities to all classes, computed in parts of two columns."""

    def computed(labels, similarities):
        padded = tf.concat([similarities, tf.zeros((len(labels), 3), similarities.dtype)], axis=1)
        own, others = 0.0, []
        for first, classes in OF_PARTS:
            part = padded[:, first : first + 2]
            found = own_and_others(tf.constant(labels - first, tf.int32), part, scale=scale, classes=classes)
            own, others = own + found[0], [*others, found[1]]
        return function(np.zeros_like(labels), tf.stack([own, *others], axis=1), scale=scale)

    return computed


def value_and_gradient(function, labels, similarities):
    similarities = tf.constant(similarities)
    with tf.GradientTape() as tape:
        tape.watch(similarities)
        values = function(labels, similarities)
    return values.numpy(), tape.gradient(values, similarities).numpy()


@pytest.mark.parametrize("function", [own_against_others, others_over_own])
def test_parts_are_as_the_whole(function):
    expected = value_and_gradient(lambda *of: function(*of, scale=SCALE), LABELS, COSINES)
    found = value_and_gradient(in_parts(function, SCALE), LABELS, COSINES)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_large_scales_do_not_overflow():
    function = in_parts(own_against_others, 1e4)
    for values in value_and_gradient(function, LABELS, COSINES):
        assert np.isfinite(values).all()


def test_nan_stays():
    values, _ = value_and_gradient(in_parts(own_against_others, SCALE), LABELS, np.full((5, 5), np.nan))
    assert np.isnan(values).all()


def test_of_a_part_without_the_own_class_or_without_others():
    elsewhere = own_and_others(tf.constant([-3]), tf.constant([[0.5, 0.25]]), scale=2.0, classes=1)
    np.testing.assert_allclose(elsewhere, [[0.0], [0.5]], rtol=1e-6)
    alone = own_and_others(tf.constant([0]), tf.constant([[0.5, 0.25]]), scale=2.0, classes=1)
    np.testing.assert_allclose(alone, [[0.5], [-np.inf]], rtol=1e-6)

"""Parts of the classes stand for their classes in a softmax over all."""

import numpy as np
import pytest
import tensorflow as tf

from tfdml.functional.softmax import others_over_own, own_against_others, own_and_others

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

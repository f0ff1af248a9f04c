import math

import numpy as np
import pytest
import tensorflow as tf

from tests.of_batches import of_batches
from tfdml.losses import RankedListSimpler


def naive(labels, embeddings, margin=0.4, negative_temperature=10.0):
    """Section 3.4 of Ranked List Loss: boundaries 1 - m / 2 and 1 + m / 2, positives unweighted, both halves equal."""
    rows, values = np.asarray(embeddings, np.float64), []
    for i, label in enumerate(labels):
        distance = [math.sqrt(sum((a - b) ** 2 for a, b in zip(rows[i], row, strict=True))) for row in rows]
        positives = [d - (1 - margin / 2) for j, d in enumerate(distance) if j != i and labels[j] == label]
        negatives = [1 + margin / 2 - d for j, d in enumerate(distance) if labels[j] != label]
        positives, negatives = ([v for v in kind if v > 0] for kind in (positives, negatives))
        weights = [math.exp(negative_temperature * v) for v in negatives]
        pull = sum(positives) / max(len(positives), 1)
        push = sum(w * v for w, v in zip(weights, negatives, strict=True)) / (sum(weights) or 1.0)
        values.append(pull / 2 + push / 2)
    return values


@pytest.mark.parametrize("arguments", [{}, {"margin": 0.0}, {"margin": 2.0}, {"negative_temperature": 1.5}], ids=str)
@of_batches("size, classes, dim", [(2, 2, 2), (7, 2, 3), (13, 5, 8), (20, 3, 2), (6, 1, 4), (9, 99, 3)])
def test_equal_to_a_loop_over_lists(make_batch, size, classes, dim, dtype, tolerance, arguments):
    for normalised in (True, False):
        labels, embeddings = make_batch(size, classes, dim, dtype=dtype, normalised=normalised)
        values = RankedListSimpler(**arguments).call(labels, embeddings)
        assert values.dtype == dtype
        np.testing.assert_allclose(values, naive(labels, embeddings, **arguments), rtol=tolerance, atol=tolerance)


def test_by_hand():
    # On a line at 0, 1.5 (one class) and 1 (another): 0.7 too far from 0.8; 0.2 and 0.7 too near for 1.2.
    values = RankedListSimpler(negative_temperature=0.0).call([0, 0, 1], np.array([[0.0], [1.5], [1.0]]))
    np.testing.assert_allclose(values, [(0.7 + 0.2) / 2, (0.7 + 0.7) / 2, (0.2 + 0.7) / 2 / 2], rtol=1e-10)


def test_lists_without_violations_are_zero_with_zero_gradient():
    variable = tf.Variable([[0.0, 0.0], [0.5, 0.0], [9.0, 0.0], [9.0, 0.5]])
    with tf.GradientTape() as tape:
        values = RankedListSimpler().call([0, 0, 1, 1], variable)
    np.testing.assert_array_equal(values, np.zeros(4))
    np.testing.assert_array_equal(tape.gradient(values, variable), np.zeros((4, 2)))


def test_the_temperature_can_be_set(make_batch):
    labels, embeddings = make_batch()
    loss = RankedListSimpler(reduction=None)
    loss.negative_temperature = 1.0
    expected = RankedListSimpler(negative_temperature=1.0).call(labels, embeddings)
    np.testing.assert_allclose(loss(labels, embeddings), expected, rtol=1e-6)


def test_the_configuration_has_no_more_than_the_arguments():
    config = RankedListSimpler(margin=0.6, negative_temperature=4.4).get_config()
    assert (config["margin"], config["negative_temperature"]) == (0.6, 4.4)
    assert not {"alpha", "positive_temperature", "balance"} & set(config)
    assert RankedListSimpler.from_config(config).get_config() == config


@pytest.mark.parametrize("margin", [-0.1, 2.1])
def test_bad_margins_are_told(margin):
    with pytest.raises(ValueError, match=f"margin to be a number from 0 to 2; received {margin}"):
        RankedListSimpler(margin=margin)

import math

import numpy as np
import pytest
import tensorflow as tf

from tests.of_batches import of_batches
from tfdml.losses import Circle


def cosine(x, y):
    product = sum(a * b for a, b in zip(x, y, strict=True))
    return product / math.sqrt(sum(a * a for a in x) * sum(b * b for b in y))


def naive(labels, embeddings, margin=0.4, scale=80.0, weights_at=None):
    """Equation (6) of Circle Loss; the weights are those of other embeddings where some are given."""
    rows, values = np.asarray(embeddings, np.float64), []
    fixed = rows if weights_at is None else weights_at
    for i, label in enumerate(labels):
        positives = [j for j in range(len(labels)) if j != i and labels[j] == label]
        negatives = [j for j in range(len(labels)) if labels[j] != label]
        positive_sum, negative_sum = 0.0, 0.0
        for j in positives:
            weight = max(0.0, 1 + margin - cosine(fixed[i], fixed[j]))
            positive_sum += math.exp(-scale * weight * (cosine(rows[i], rows[j]) - (1 - margin)))
        for j in negatives:
            weight = max(0.0, cosine(fixed[i], fixed[j]) + margin)
            negative_sum += math.exp(scale * weight * (cosine(rows[i], rows[j]) - margin))
        values.append(math.log(1 + negative_sum * positive_sum))
    return values


@pytest.mark.parametrize("margin, scale", [(0.4, 80.0), (0.25, 64.0), (-0.2, 1.0), (0.0, 10.0)])
@of_batches("size, classes, dim", [(2, 2, 2), (7, 2, 3), (13, 5, 8), (20, 3, 2), (6, 1, 4), (9, 99, 3)])
def test_equal_to_a_loop_over_pairs(make_batch, size, classes, dim, dtype, tolerance, margin, scale):
    for normalised in (True, False):
        labels, embeddings = make_batch(size, classes, dim, dtype=dtype, normalised=normalised)
        values = Circle(margin=margin, scale=scale).call(labels, embeddings)
        assert values.dtype == dtype
        expected = naive(labels, embeddings, margin, scale)
        np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)
        differentiable = Circle(margin=margin, scale=scale, differentiate_weights=True).call(labels, embeddings)
        np.testing.assert_array_equal(differentiable, values)


def test_by_hand():
    # The first sees its positive at 0.6 and its negative at 0.8. Weights: 1.25 - 0.6 and 0.8 + 0.25.
    values = Circle(margin=0.25, scale=2.0).call([2, 2, 6], np.array([[5.0, 0.0], [0.6, 0.8], [4.0, 3.0]]))
    exponent = 2 * 1.05 * (0.8 - 0.25) - 2 * 0.65 * (0.6 - 0.75)
    assert float(values[0]) == pytest.approx(math.log(1 + math.exp(exponent)), rel=1e-10)
    assert float(values[2]) == 0.0


@pytest.mark.parametrize("scale", [4.0, 80.0])
def test_gradient_holds_the_weights_constant(make_batch, scale):
    labels, embeddings = make_batch(8, 3, dtype="float64", normalised=False)
    variable = tf.Variable(embeddings)
    with tf.GradientTape(persistent=True) as tape:
        value = tf.reduce_sum(Circle(scale=scale).call(labels, variable))
        through = tf.reduce_sum(Circle(scale=scale, differentiate_weights=True).call(labels, variable))
    gradient, other = tape.gradient(value, variable).numpy(), tape.gradient(through, variable).numpy()
    assert np.abs(gradient - other).max() > 0.1
    for place in np.ndindex(embeddings.shape):
        step = np.zeros_like(embeddings)
        step[place] = 1e-6
        high, low = (
            sum(naive(labels, embeddings + sign * step, scale=scale, weights_at=embeddings)) for sign in (1, -1)
        )
        assert gradient[place] == pytest.approx((high - low) / 2e-6, abs=1e-5, rel=1e-5)


def test_gradient_of_a_negative_is_the_one_printed_in_the_paper():
    # With one pair of each kind, d loss / d s_n = scale (s_n + margin) z, where z is the sigmoid of the exponent.
    angle = tf.Variable(math.acos(0.5), dtype=tf.float64)
    with tf.GradientTape() as tape:
        rows = tf.stack([[1.0, 0.0], [0.8, 0.6], tf.stack([tf.cos(angle), -tf.sin(angle)])])
        value = Circle(margin=0.25, scale=3.0).call([0, 0, 1], tf.cast(rows, tf.float64))[0]
    gradient = tape.gradient(value, angle) / -tf.sin(angle)
    exponent = 3 * (0.5**2 - 0.25**2) + 3 * ((1 - 0.8) ** 2 - 0.25**2)
    assert float(gradient) == pytest.approx(3 * (0.5 + 0.25) / (1 + math.exp(-exponent)), rel=1e-10)


@pytest.mark.parametrize("labels", [[1, 1, 1, 1], [0, 1, 2, 3]], ids=["one class", "all different"])
def test_without_pairs_it_is_zero_with_zero_gradient(make_batch, labels):
    variable = tf.Variable(make_batch(4)[1])
    with tf.GradientTape() as tape:
        values = Circle().call(np.array(labels), variable)
    np.testing.assert_array_equal(values, np.zeros(4))
    np.testing.assert_array_equal(tape.gradient(values, variable), np.zeros((4, 5)))


def test_a_large_scale_does_not_overflow(make_batch):
    labels, embeddings = make_batch()
    variable = tf.Variable(embeddings)
    with tf.GradientTape() as tape:
        values = Circle(scale=1e5).call(labels, variable)
    assert np.all(np.isfinite(values)) and values.numpy().max() > 1e4
    assert np.all(np.isfinite(tape.gradient(values, variable)))


def test_gradients_go_through_the_weights_where_told(make_batch):
    labels, embeddings = make_batch()
    variable, gradients = tf.Variable(embeddings), []
    for differentiate_weights in (False, True):
        with tf.GradientTape() as tape:
            value = Circle(differentiate_weights=differentiate_weights)(labels, variable)
        gradients.append(tape.gradient(value, variable).numpy())
    assert np.abs(gradients[0] - gradients[1]).max() > 0.1


def test_bad_arguments_are_told():
    with pytest.raises(ValueError, match="scale to be a number above 0; received 0"):
        Circle(scale=0)

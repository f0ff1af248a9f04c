import math

import numpy as np
import pytest
import tensorflow as tf

from tests.of_batches import of_batches
from tfdml.losses import BinomialDeviance


def cosine(x, y):
    product = sum(a * b for a, b in zip(x, y, strict=True))
    return product / math.sqrt(sum(a * a for a in x) * sum(b * b for b in y))


def costs(labels, embeddings, alpha=2.0, beta=0.5, negative_cost=25.0):
    """Costs of all ordered pairs of the batch, {(i, j): cost}, of each kind."""
    rows = np.asarray(embeddings, np.float64)
    positives, negatives = {}, {}
    for i, label in enumerate(labels):
        for j, other in enumerate(labels):
            kind, sign = (positives, 1.0) if label == other else (negatives, -negative_cost)
            if i != j:
                kind[i, j] = math.log(math.exp(-alpha * (cosine(rows[i], rows[j]) - beta) * sign) + 1)
    return positives, negatives


def naive(labels, embeddings, **arguments):
    """The deviance as Ustinova and Lempitsky print it, split by the first row of each pair."""
    size, values = len(labels), []
    for i in range(size):
        value = 0.0
        for kind in costs(labels, embeddings, **arguments):
            value += sum(size * cost / len(kind) for (first, _), cost in kind.items() if first == i)
        values.append(value)
    return values


@pytest.mark.parametrize("arguments", [{}, {"alpha": 0.5}, {"beta": -0.3}, {"negative_cost": 3.0}], ids=str)
@of_batches("size, classes, dim", [(2, 2, 2), (7, 2, 3), (13, 5, 8), (20, 3, 2), (6, 1, 4), (9, 99, 3)])
def test_equal_to_a_loop_over_pairs(make_batch, size, classes, dim, dtype, tolerance, arguments):
    for normalised in (True, False):
        labels, embeddings = make_batch(size, classes, dim, dtype=dtype, normalised=normalised)
        values = BinomialDeviance(**arguments).call(labels, embeddings)
        assert values.dtype == dtype
        np.testing.assert_allclose(values, naive(labels, embeddings, **arguments), rtol=tolerance, atol=tolerance)
        means = [sum(kind.values()) / max(len(kind), 1) for kind in costs(labels, embeddings, **arguments)]
        assert np.mean(values) == pytest.approx(sum(means), rel=tolerance)


def test_by_hand():
    # One positive pair at cosine 0.6; negative pairs at 0.8 and at 0.96.
    labels, embeddings = [2, 2, 6], np.array([[5.0, 0.0], [0.6, 0.8], [4.0, 3.0]])
    values = BinomialDeviance(alpha=1.0, beta=0.5, negative_cost=2.0).call(labels, embeddings)
    pull = math.log(1 + math.exp(-0.1))
    near, far = math.log(1 + math.exp(2 * 0.46)), math.log(1 + math.exp(2 * 0.3))
    # Of two ordered positive pairs each of the first two rows has one; of four negative pairs the last row has two.
    expected = [3 * (pull / 2 + far / 4), 3 * (pull / 2 + near / 4), 3 * (near + far) / 4]
    np.testing.assert_allclose(values, expected, rtol=1e-10)


def test_one_kind_of_pairs_counts_alone(make_batch):
    embeddings = make_batch(5)[1]
    for labels, changed in (([1] * 5, {"negative_cost": 3.0}), (range(5), {})):
        values = BinomialDeviance(**changed).call(np.array(labels), embeddings)
        np.testing.assert_allclose(values, naive(labels, embeddings), rtol=1e-4)
        assert np.all(values.numpy() > 0)


def test_without_pairs_it_is_zero_with_zero_gradient(make_batch):
    variable = tf.Variable(make_batch(1)[1])
    with tf.GradientTape() as tape:
        values = BinomialDeviance().call(np.array([3]), variable)
    np.testing.assert_array_equal(values, [0.0])
    np.testing.assert_array_equal(tape.gradient(values, variable), np.zeros((1, 5)))


def test_a_high_cost_does_not_overflow(make_batch):
    labels, embeddings = make_batch()
    variable = tf.Variable(embeddings)
    with tf.GradientTape() as tape:
        values = BinomialDeviance(negative_cost=1e6).call(labels, variable)
    assert np.all(np.isfinite(values)) and values.numpy().max() > 1e3
    assert np.all(np.isfinite(tape.gradient(values, variable)))


@pytest.mark.parametrize("arguments", [{"alpha": 0}, {"negative_cost": -1}])
def test_bad_arguments_are_told(arguments):
    with pytest.raises(ValueError, match="to be a number above 0; received"):
        BinomialDeviance(**arguments)

import numpy as np
import pytest
import tensorflow as tf

from tests.of_batches import of_batches
from tfdml.losses import Contrastive


def naive(labels, embeddings, margin, positive_margin=0.0, powers=(2, 1)):
    """Equation (10) of Attention-based Ensemble, pair by pair; with powers 2 and 2 that of Lifted Structure."""
    embeddings = np.asarray(embeddings, np.float64)
    values = []
    for i, label in enumerate(labels):
        value = 0.0
        for j, other in enumerate(labels):
            distance = sum((a - b) ** 2 for a, b in zip(embeddings[i], embeddings[j], strict=True)) ** 0.5
            if i != j:
                same = label == other
                value += max(0.0, distance - positive_margin) ** powers[0] if same else 0.0
                value += 0.0 if same else max(0.0, margin - distance) ** powers[1]
        values.append(value)
    return values


@pytest.mark.parametrize("margin", [0.0, 1.0, 4.0])
@of_batches("size, classes, dim", [(2, 2, 2), (7, 2, 3), (13, 5, 8), (20, 1, 2), (6, 99, 3)])
def test_equal_to_a_loop_over_pairs(make_batch, size, classes, dim, dtype, tolerance, margin):
    for normalised in (True, False):
        labels, embeddings = make_batch(size, classes, dim, dtype=dtype, normalised=normalised)
        values = Contrastive(margin=margin).call(labels, embeddings)
        assert values.dtype == dtype
        np.testing.assert_allclose(values, naive(labels, embeddings, margin), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("margin, positive_margin", [(1.0, 0.0), (1.4, 0.7), (0.0, 3.0)])
@pytest.mark.parametrize("powers", [(2, 2), (2, 1), (1, 2), (1, 1)])
@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-4), ("float64", 1e-10)])
def test_powers_and_both_margins(make_batch, dtype, tolerance, powers, margin, positive_margin):
    squared = {"squared_positives": powers[0] == 2, "squared_negatives": powers[1] == 2}
    for size, classes, dim, normalised in [(2, 2, 2, True), (13, 4, 3, False), (16, 5, 8, True)]:
        labels, embeddings = make_batch(size, classes, dim, dtype=dtype, normalised=normalised)
        values = Contrastive(margin=margin, positive_margin=positive_margin, **squared).call(labels, embeddings)
        expected = naive(labels, embeddings, margin, positive_margin, powers)
        np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)


def test_both_margins_by_hand():
    # On a line at 0, 2 (one class) and 3 (another).
    line = np.array([[0.0], [2.0], [3.0]])
    values = Contrastive(margin=3.5, positive_margin=1.5, squared_negatives=True).call([5, 5, 9], line)
    np.testing.assert_allclose(values, [0.5**2 + 0.5**2, 0.5**2 + 2.5**2, 0.5**2 + 2.5**2])


def test_a_negative_positive_margin_is_refused():
    with pytest.raises(ValueError, match="positive_margin to be a number of 0 or more; received -0.1"):
        Contrastive(positive_margin=-0.1)


def test_by_hand():
    # On a line at 0, 2 (one class) and 3 (another).
    values = Contrastive(margin=3.5).call([5, 5, 9], np.array([[0.0], [2.0], [3.0]]))
    np.testing.assert_allclose(values, [2**2 + 0.5, 2**2 + 2.5, 0.5 + 2.5])


def test_classes_beyond_the_margin_cost_nothing():
    variable = tf.Variable(10.0 * np.eye(4))
    with tf.GradientTape() as tape:
        values = Contrastive(margin=1.0).call(np.arange(4), variable)
    np.testing.assert_array_equal(values, np.zeros(4))
    np.testing.assert_array_equal(tape.gradient(values, variable), np.zeros((4, 4)))


def test_one_class_is_pulled_together_only(make_batch):
    embeddings = make_batch(6)[1]
    one_class = np.zeros(6, int)
    low, high = (Contrastive(margin=margin).call(one_class, embeddings) for margin in (0.0, 100.0))
    np.testing.assert_array_equal(low, high)
    assert np.all(low.numpy() > 0)

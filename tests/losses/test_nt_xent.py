import math

import numpy as np
import pytest
import tensorflow as tf

from tests.losses.test_sup_con import cosine
from tests.of_batches import of_batches
from tfdml.losses import NTXent, SupCon


def naive(labels, embeddings, temperature):
    """Equation (1) of SimCLR for each positive pair, all other rows of the sum being negatives; an anchor's mean."""
    embeddings, values = np.asarray(embeddings, np.float64), []
    for i, label in enumerate(labels):
        exponential = [math.exp(cosine(embeddings[i], other) / temperature) for other in embeddings]
        negatives = sum(exponential[j] for j in range(len(labels)) if labels[j] != label)
        positives = [exponential[j] for j in range(len(labels)) if labels[j] == label and j != i]
        terms = [-math.log(each / (each + negatives)) for each in positives]
        values.append(sum(terms) / max(len(terms), 1))
    return values


@pytest.mark.parametrize("temperature", [0.05, 0.1, 2.0])
@of_batches("size, classes, dim", [(2, 2, 2), (7, 2, 3), (13, 5, 8), (20, 1, 2), (6, 99, 3)])
def test_equal_to_a_loop_over_pairs(make_batch, size, classes, dim, dtype, tolerance, temperature):
    for normalised in (True, False):
        labels, embeddings = make_batch(size, classes, dim, dtype=dtype, normalised=normalised)
        values = NTXent(temperature=temperature).call(labels, embeddings)
        assert values.dtype == dtype
        np.testing.assert_allclose(values, naive(labels, embeddings, temperature), rtol=tolerance, atol=tolerance)


def test_by_hand():
    # Cosines of the first: 1 to one positive, 0 to the other and to the negative.
    embeddings = np.array([[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, -3.0]])
    values = NTXent(temperature=0.5).call([4, 4, 4, 6], embeddings).numpy()
    assert values[0] == pytest.approx((math.log(1 + math.exp(-2)) + math.log(2)) / 2)
    assert values[3] == 0


def test_of_two_views_it_is_the_supervised_loss(make_batch):
    """With one positive an anchor both are equation (1) of SimCLR."""
    _, embeddings = make_batch(12, dtype="float64")
    labels = np.random.default_rng(0).permutation(12) // 2
    expected = SupCon(temperature=0.3).call(labels, embeddings)
    np.testing.assert_allclose(NTXent(temperature=0.3).call(labels, embeddings), expected, rtol=1e-9)


def test_a_low_temperature_does_not_overflow():
    variable = tf.Variable(np.array([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]], np.float32))
    with tf.GradientTape() as tape:
        values = NTXent(temperature=1e-4).call([0, 0, 1], variable)
    np.testing.assert_allclose(values, [0.0, 0.0, 0.0], atol=1e-6)
    assert np.all(np.isfinite(tape.gradient(values, variable)))


@pytest.mark.parametrize("temperature", [0, -0.5])
def test_bad_temperatures_are_told(temperature):
    with pytest.raises(ValueError, match=f"temperature to be a number above 0; received {temperature}"):
        NTXent(temperature)

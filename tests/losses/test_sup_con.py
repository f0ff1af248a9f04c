import math

import numpy as np
import pytest
import tensorflow as tf

from tests.of_batches import of_batches
from tfdml.losses import SupCon


def cosine(x, y):
    product = sum(a * b for a, b in zip(x, y, strict=True))
    return product / (sum(a * a for a in x) * sum(b * b for b in y)) ** 0.5


def naive(labels, embeddings, temperature, form):
    """Equations (2) and (3) of Supervised Contrastive Learning, an anchor's part of the sum."""
    embeddings, values = np.asarray(embeddings, np.float64), []
    for i, label in enumerate(labels):
        others = [j for j in range(len(labels)) if j != i]
        exponential = {j: math.exp(cosine(embeddings[i], embeddings[j]) / temperature) for j in others}
        shares = [exponential[j] / sum(exponential.values()) for j in others if labels[j] == label]
        if not shares:
            values.append(0.0)
        elif form == "out":
            values.append(-sum(math.log(share) for share in shares) / len(shares))
        else:
            values.append(-math.log(sum(shares) / len(shares)))
    return values


@pytest.mark.parametrize("form", ["out", "in"])
@pytest.mark.parametrize("temperature", [0.02, 0.1, 2.0])
@of_batches("size, classes, dim", [(2, 2, 2), (7, 2, 3), (13, 5, 8), (20, 1, 2), (6, 99, 3)])
def test_equal_to_a_loop_over_pairs(make_batch, size, classes, dim, dtype, tolerance, temperature, form):
    for normalised in (True, False):
        labels, embeddings = make_batch(size, classes, dim, dtype=dtype, normalised=normalised)
        values = SupCon(temperature=temperature, form=form).call(labels, embeddings)
        assert values.dtype == dtype
        expected = naive(labels, embeddings, temperature, form)
        np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)


def test_by_hand():
    # Cosines of the first: 1 to one positive, 0 to the other, 0 to the negative.
    embeddings = np.array([[2.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, -3.0]])
    labels, total = [4, 4, 4, 6], math.e**2 + 2
    values = [SupCon(temperature=0.5, form=form).call(labels, embeddings).numpy() for form in ("out", "in")]
    assert values[0][0] == pytest.approx((math.log(total / math.e**2) + math.log(total)) / 2)
    assert values[1][0] == pytest.approx(-math.log((math.e**2 + 1) / total / 2))
    assert values[0][3] == values[1][3] == 0


@pytest.mark.parametrize("form", ["out", "in"])
def test_a_low_temperature_does_not_overflow(form):
    # Exponents of 10,000 in float32: the first has its positive next to it, the third a negative.
    embeddings = np.array([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [1.0, 0.0]], np.float32)
    variable = tf.Variable(embeddings[[0, 1, 2]])
    with tf.GradientTape() as tape:
        values = SupCon(temperature=1e-4, form=form).call([0, 0, 1], variable)
    np.testing.assert_allclose(values, [0.0, 0.0, 0.0], atol=1e-3)
    assert np.all(np.isfinite(tape.gradient(values, variable)))
    np.testing.assert_allclose(SupCon(temperature=1e-4, form=form).call([0, 1, 0], embeddings[:3])[0], 2e4)


@pytest.mark.parametrize("form", ["out", "in"])
def test_without_positives_it_is_zero_with_zero_gradient(make_batch, form):
    variable = tf.Variable(make_batch(4)[1])
    with tf.GradientTape() as tape:
        values = SupCon(form=form).call(np.arange(4), variable)
    np.testing.assert_array_equal(values, np.zeros(4))
    np.testing.assert_array_equal(tape.gradient(values, variable), np.zeros((4, 5)))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"temperature": 0.0}, "temperature to be a number above 0; received 0.0"),
        ({"temperature": -0.1}, "temperature to be a number above 0; received -0.1"),
        ({"form": "sum"}, "one of 'out', 'in'; received 'sum'"),
    ],
)
def test_bad_arguments_are_told(arguments, message):
    with pytest.raises(ValueError, match=message):
        SupCon(**arguments)

import math

import numpy as np
import pytest
import tensorflow as tf

from tests.of_batches import of_batches
from tfdml.losses import MultiSimilarity


def cosine(x, y):
    product = sum(a * b for a, b in zip(x, y, strict=True))
    return product / math.sqrt(sum(a * a for a in x) * sum(b * b for b in y))


def naive(labels, embeddings, alpha=2.0, beta=50.0, base=0.5, epsilon=0.1, mining=True):
    """Mining and loss as in Multi-Similarity Loss with General Pair Weighting, an anchor's part."""
    rows, values = np.asarray(embeddings, np.float64), []
    for i, label in enumerate(labels):
        positives = [cosine(rows[i], rows[j]) for j in range(len(labels)) if j != i and labels[j] == label]
        negatives = [cosine(rows[i], rows[j]) for j in range(len(labels)) if labels[j] != label]
        if mining:
            hardest_positive, hardest_negative = min(positives, default=math.inf), max(negatives, default=-math.inf)
            negatives = [s for s in negatives if s > hardest_positive - epsilon]
            positives = [s for s in positives if s < hardest_negative + epsilon]
        pull = math.log(1 + sum(math.exp(-alpha * (s - base)) for s in positives)) / alpha
        push = math.log(1 + sum(math.exp(beta * (s - base)) for s in negatives)) / beta
        values.append(pull + push)
    return values


@pytest.mark.parametrize(
    "arguments",
    [{}, {"alpha": 5.0}, {"beta": 40.0, "base": 1.0}, {"epsilon": 0.5}, {"epsilon": -0.2}, {"epsilon": 5.0}],
    ids=str,
)
@pytest.mark.parametrize("mining", [True, False])
@of_batches("size, classes, dim", [(2, 2, 2), (7, 2, 3), (13, 5, 8), (20, 3, 2), (6, 1, 4), (9, 99, 3)])
def test_equal_to_a_loop_over_pairs(make_batch, size, classes, dim, dtype, tolerance, mining, arguments):
    for normalised in (True, False):
        labels, embeddings = make_batch(size, classes, dim, dtype=dtype, normalised=normalised)
        values = MultiSimilarity(mining=mining, **arguments).call(labels, embeddings)
        assert values.dtype == dtype
        expected = naive(labels, embeddings, mining=mining, **arguments)
        np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)


def angles(*degrees):
    """Rows of length 2 at these angles."""
    return np.array([[2 * math.cos(math.radians(degree)), 2 * math.sin(math.radians(degree))] for degree in degrees])


def test_by_hand():
    # The first sees its positives at cosines 1/2 and 1, and one negative at 0.8: the positive at 1 is too easy.
    embeddings = np.concatenate([angles(0, 60, 0), [[0.8, 0.6]]])
    value = MultiSimilarity(alpha=2.0, beta=10.0, base=0.6, epsilon=0.1).call([3, 3, 3, 5], embeddings)[0]
    expected = math.log(1 + math.exp(-2 * (0.5 - 0.6))) / 2 + math.log(1 + math.exp(10 * (0.8 - 0.6))) / 10
    assert float(value) == pytest.approx(expected, rel=1e-10)


def test_easy_pairs_are_not_mined():
    # Both classes at one angle each, opposite: every positive at 1, every negative at -1.
    labels, embeddings = np.array([0, 0, 1, 1]), angles(0, 0, 180, 180)
    variable = tf.Variable(embeddings)
    with tf.GradientTape() as tape:
        values = MultiSimilarity().call(labels, variable)
    np.testing.assert_array_equal(values, np.zeros(4))
    np.testing.assert_array_equal(tape.gradient(values, variable), np.zeros((4, 2)))
    assert np.all(MultiSimilarity(mining=False).call(labels, embeddings).numpy() > 0.1)


@pytest.mark.parametrize("labels", [[1, 1, 1, 1], [0, 1, 2, 3]], ids=["one class", "all different"])
def test_with_a_kind_missing_nothing_is_mined(make_batch, labels):
    variable = tf.Variable(make_batch(4)[1])
    for epsilon in (0.1, 10.0):
        with tf.GradientTape() as tape:
            values = MultiSimilarity(epsilon=epsilon).call(np.array(labels), variable)
        np.testing.assert_array_equal(values, np.zeros(4))
        np.testing.assert_array_equal(tape.gradient(values, variable), np.zeros((4, 5)))


def test_without_mining_the_kind_that_is_there_counts(make_batch):
    embeddings = make_batch(5, normalised=False)[1]
    for labels in ([1] * 5, range(5)):
        values = MultiSimilarity(mining=False, base=0.0).call(np.array(labels), embeddings)
        assert np.all(values.numpy() > 0)


def test_length_of_rows_does_not_matter_and_sharp_sums_do_not_overflow(make_batch):
    labels, embeddings = make_batch()
    expected = MultiSimilarity(beta=1e4, alpha=1e4, base=0.0).call(labels, embeddings)
    assert np.all(np.isfinite(expected)) and np.any(expected.numpy() > 0.5)
    lengths = np.linspace(0.01, 100, len(labels), dtype="float32")[:, None]
    values = MultiSimilarity(beta=1e4, alpha=1e4, base=0.0).call(labels, lengths * embeddings)
    np.testing.assert_allclose(values, expected, rtol=1e-5)


@pytest.mark.parametrize("arguments", [{"alpha": 0}, {"beta": -1}])
def test_bad_arguments_are_told(arguments):
    with pytest.raises(ValueError, match="to be a number above 0; received"):
        MultiSimilarity(**arguments)

import math

import numpy as np
import pytest
import tensorflow as tf

from tests.of_batches import of_batches
from tfdml.losses import Angular


def unit(row):
    length = sum(value * value for value in row) ** 0.5
    return [value / length for value in row]


def dot(x, y):
    return sum(a * b for a, b in zip(x, y, strict=True))


def naive(labels, embeddings, alpha):
    """Every triplet in a loop."""
    rows = [unit(row) for row in np.asarray(embeddings, np.float64)]
    tangent, size, values = math.tan(math.radians(alpha)) ** 2, len(rows), []
    for a in range(size):
        of_pairs = []
        for p in range(size):
            if a == p or labels[a] != labels[p]:
                continue
            total = 1.0
            for n in range(size):
                if labels[n] != labels[a]:
                    both = [x + y for x, y in zip(rows[a], rows[p], strict=True)]
                    exponent = 4 * tangent * dot(both, rows[n]) - 2 * (1 + tangent) * dot(rows[a], rows[p])
                    total += math.exp(exponent)
            of_pairs.append(math.log(total))
        values.append(sum(of_pairs) / len(of_pairs) if of_pairs else 0.0)
    return values


@pytest.mark.parametrize("alpha", [5.0, 36, 45.0, 60.0])
@of_batches("size, classes, dim", [(2, 2, 2), (7, 2, 3), (13, 5, 8), (20, 3, 2), (9, 4, 1)])
def test_equal_to_a_loop_over_triplets(make_batch, size, classes, dim, dtype, tolerance, alpha):
    for normalised in (True, False):
        labels, embeddings = make_batch(size, classes, dim, dtype=dtype, normalised=normalised)
        values = Angular(alpha=alpha).call(labels, embeddings)
        assert values.dtype == dtype
        np.testing.assert_allclose(values, naive(labels, embeddings, alpha), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("alpha", [45.0, 60.0])
@pytest.mark.parametrize(
    "angles, labels",
    [
        # Each anchor has the other's worst negative as its best one: no negative is near to both.
        ([0, 180, 0, 180], [0, 0, 1, 2]),
        ([0, 180, 1, 179], [0, 0, 1, 2]),
        # All in one point; one class opposite the other; a positive pair apart and a negative between them.
        ([0, 0, 0, 0], [0, 0, 1, 1]),
        ([0, 0, 180, 180], [0, 0, 1, 1]),
        ([0, 90, 45, 225], [0, 0, 1, 1]),
    ],
)
def test_extreme_similarities_lose_no_precision(angles, labels, alpha):
    points = [[math.cos(math.radians(angle)), math.sin(math.radians(angle))] for angle in angles]
    values = Angular(alpha=alpha).call(labels, np.array(points, np.float32))
    np.testing.assert_allclose(values, naive(labels, points, alpha), rtol=1e-4, atol=1e-8)


def test_gradient_at_the_extremes():
    """Of the shift by the highest exponent nothing is left: differences of the loop agree."""
    labels, random = [0, 0, 1, 1, 2], np.random.default_rng(0)
    embeddings = np.array([[1.0, 0], [-1, 0.01], [1, 0.02], [-1, 0], [0.9, 0.1]]) * 3
    variable = tf.Variable(embeddings)
    with tf.GradientTape() as tape:
        values = Angular(alpha=60.0).call(labels, variable)
    direction = random.normal(size=embeddings.shape)
    high, low = (sum(naive(labels, embeddings + sign * 1e-6 * direction, 60.0)) for sign in (1, -1))
    assert np.sum(tape.gradient(values, variable) * direction) == pytest.approx((high - low) / 2e-6, rel=1e-5)


def test_by_hand():
    # tan^2(45 degrees) is 1: the exponent is 4 (0 + 1) - 4 * 0.
    values = Angular().call([5, 5, 9], np.array([[2.0, 0.0], [0.0, 1.0], [0.0, 7.0]]))
    np.testing.assert_allclose(values, [math.log(1 + math.e**4)] * 2 + [0.0])


@pytest.mark.parametrize("labels", [[1, 1, 1, 1], [0, 1, 2, 3]], ids=["one class", "all different"])
def test_without_triplets_it_is_zero_with_zero_gradient(make_batch, labels):
    variable = tf.Variable(make_batch(4)[1])
    with tf.GradientTape() as tape:
        values = Angular().call(np.array(labels), variable)
    np.testing.assert_array_equal(values, np.zeros(4))
    np.testing.assert_array_equal(tape.gradient(values, variable), np.zeros((4, 5)))


@pytest.mark.parametrize("alpha", [0.0, -45.0, 61, 90.0, float("nan")])
def test_bad_angles_are_told(alpha):
    with pytest.raises(ValueError, match=f"angle in degrees above 0 and at most 60; received {alpha!r}"):
        Angular(alpha=alpha)


def test_negatives_are_those_of_the_anchor_where_a_positive_does_not_share_them():
    """As of triplets: row 1, the positive of row 0, knows no negative; row 0 has row 2."""
    given = np.array([[1, 1, 0], [1, 1, -1], [0, -1, 1]], "float32")
    embeddings = tf.Variable(np.random.default_rng(0).normal(size=(3, 4)).astype("float32"))
    with tf.GradientTape() as tape:
        values = Angular(alpha=40.0).call(tf.constant(given), embeddings)
        total = tf.reduce_sum(values)
    np.testing.assert_allclose(values, [naive([0, 0, 1], embeddings.numpy(), 40.0)[0], 0, 0], rtol=1e-5)
    assert np.isfinite(tape.gradient(total, embeddings)).all()

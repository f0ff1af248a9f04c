import numpy as np
import pytest
import tensorflow as tf

from tests.of_batches import of_batches
from tfdml.losses import Triplet

MININGS = ["all", "semi_hard", "hard", "batch_hard"]
ALL_MININGS = [*MININGS, "distance_weighted"]


def squared(x, y):
    return sum((a - b) ** 2 for a, b in zip(x, y, strict=True))


def naive(labels, embeddings, margin, mining, power=2):
    """Every triplet in a loop, from the words of the papers."""
    values, size = [], len(labels)
    for anchor in range(size):
        distance = [squared(embeddings[anchor], other) ** (power / 2) for other in np.asarray(embeddings, np.float64)]
        positives = [distance[j] for j in range(size) if j != anchor and labels[j] == labels[anchor]]
        negatives = [distance[j] for j in range(size) if labels[j] != labels[anchor]]
        triplets = []
        if positives and negatives:
            if mining == "all":
                triplets = [(positive, negative) for positive in positives for negative in negatives]
            elif mining == "hard":
                triplets = [(positive, min(negatives)) for positive in positives]
            elif mining == "batch_hard":
                triplets = [(max(positives), min(negatives))]
            else:
                for positive in positives:
                    farther = [negative for negative in negatives if negative > positive]
                    triplets.append((positive, min(farther) if farther else max(negatives)))
        hinges = [max(0.0, positive - negative + margin) for positive, negative in triplets]
        values.append(sum(hinges) / len(hinges) if hinges else 0.0)
    return values


of_every_margin = pytest.mark.parametrize("margin, normalised", [(0.0, True), (0.2, True), (0.2, False), (3.0, False)])
of_every_batch = of_batches("size, classes, dim", [(2, 2, 2), (7, 2, 3), (20, 3, 2), (13, 5, 8)])


@pytest.mark.parametrize("mining", MININGS)
@of_every_margin
@of_every_batch
def test_equal_to_a_loop_over_triplets(make_batch, size, classes, dim, dtype, tolerance, margin, normalised, mining):
    labels, embeddings = make_batch(size, classes, dim, dtype=dtype, normalised=normalised)
    for squares in (True, False):
        values = Triplet(margin=margin, mining=mining, squared=squares).call(labels, embeddings)
        assert values.dtype == dtype
        expected = naive(labels, embeddings, margin, mining, power=1 + squares)
        np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)


def naive_expectation(labels, embeddings, margin, shares, power=2):
    """What distance-weighted sampling costs on average, triplet by triplet; `shares(anchor, negatives)` are chances."""
    values, size = [], len(labels)
    for anchor in range(size):
        distance = [squared(embeddings[anchor], other) ** (power / 2) for other in np.asarray(embeddings, np.float64)]
        positives = [j for j in range(size) if j != anchor and labels[j] == labels[anchor]]
        negatives = [j for j in range(size) if labels[j] != labels[anchor]]
        chances = shares(anchor, negatives) if negatives else []
        value = sum(
            chance * max(0.0, distance[positive] - distance[negative] + margin)
            for positive in positives
            for negative, chance in zip(negatives, chances, strict=True)
        )
        values.append(value / max(len(positives), 1))
    return values


@pytest.fixture
def shares_of(negative_shares):
    """Function that makes `shares` for `naive_expectation` of embeddings."""

    def make(embeddings, **limits):
        rows, dim = np.asarray(embeddings, np.float64), np.shape(embeddings)[1]
        return lambda anchor, negatives: negative_shares(
            [squared(rows[anchor], rows[j]) ** 0.5 for j in negatives], dim, **limits
        )

    return make


@of_every_margin
@of_every_batch
def test_distance_weighted_is_equal_to_a_loop(
    make_batch, shares_of, size, classes, dim, dtype, tolerance, margin, normalised
):
    labels, embeddings = make_batch(size, classes, dim, dtype=dtype, normalised=normalised)
    for squares in (True, False):
        values = Triplet(margin=margin, mining="distance_weighted", squared=squares).call(labels, embeddings)
        assert values.dtype == dtype
        expected = naive_expectation(labels, embeddings, margin, shares_of(embeddings), power=1 + squares)
        np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("limits", [{"cutoff": 1.0}, {"nonzero_loss_cutoff": 1.2}, {"nonzero_loss_cutoff": None}])
def test_cutoffs_of_distance_weighted(make_batch, shares_of, limits):
    labels, embeddings = make_batch(14, dtype="float64")
    values = Triplet(mining="distance_weighted", **limits).call(labels, embeddings)
    np.testing.assert_allclose(
        values, naive_expectation(labels, embeddings, 0.2, shares_of(embeddings, **limits)), rtol=1e-10
    )
    assert not np.allclose(values, Triplet(mining="distance_weighted").call(labels, embeddings))


def test_draws_average_to_the_value_of_distance_weighted(make_batch, shares_of):
    labels, embeddings = make_batch(16, 4, dtype="float64")
    values = Triplet(mining="distance_weighted").call(labels, embeddings).numpy()
    shares, random = shares_of(embeddings), np.random.default_rng(0)
    for anchor in range(16):
        positives = np.flatnonzero((labels == labels[anchor]) & (np.arange(16) != anchor))
        negatives = np.flatnonzero(labels != labels[anchor])
        drawn = random.choice(negatives, (3000, len(positives)), p=shares(anchor, negatives))
        to_positives = ((embeddings[positives] - embeddings[anchor]) ** 2).sum(axis=1)
        to_drawn = ((embeddings[drawn] - embeddings[anchor]) ** 2).sum(axis=2)
        costs = np.maximum(to_positives - to_drawn + 0.2, 0).mean(axis=1)
        assert values[anchor] == pytest.approx(costs.mean(), abs=4.5 * costs.std() / 3000**0.5), anchor


def test_gradient_of_distance_weighted_is_that_of_the_loop_with_constant_chances(make_batch, shares_of):
    labels, embeddings = make_batch(8, 3, seed=5, dtype="float64")
    variable = tf.Variable(embeddings)
    with tf.GradientTape() as tape:
        values = Triplet(mining="distance_weighted").call(labels, variable)
    gradient, shares = tape.gradient(values, variable).numpy(), shares_of(embeddings)
    assert np.abs(gradient).max() > 1e-2
    for place in np.ndindex(embeddings.shape):
        step = np.zeros_like(embeddings)
        step[place] = 1e-6
        high, low = (sum(naive_expectation(labels, embeddings + sign * step, 0.2, shares)) for sign in (1, -1))
        assert gradient[place] == pytest.approx((high - low) / 2e-6, abs=1e-6)


@pytest.mark.parametrize("mining", MININGS)
def test_ties_are_broken_as_in_the_loop(mining):
    # Whole numbers, so that equal distances are equal in every bit.
    embeddings = np.random.default_rng(0).integers(0, 2, (14, 3)).astype("float32")
    labels = np.arange(14) % 4
    values = Triplet(margin=0.5, mining=mining).call(labels, embeddings)
    np.testing.assert_allclose(values, naive(labels, embeddings, 0.5, mining), rtol=1e-6)


def test_by_hand():
    # On a line at 0, 1 (one class) and 3 (another): squared distances 1, 9 and 4.
    values = Triplet(margin=6.0, mining="hard").call([5, 5, 9], np.array([[0.0], [1.0], [3.0]]))
    np.testing.assert_allclose(values, [0.0, 1 - 4 + 6, 0.0])


@pytest.mark.parametrize("mining", ALL_MININGS)
@pytest.mark.parametrize("labels", [[1, 1, 1, 1], [0, 1, 2, 3]], ids=["one class", "all different"])
def test_without_triplets_it_is_zero_with_zero_gradient(make_batch, labels, mining):
    variable = tf.Variable(make_batch(4)[1])
    with tf.GradientTape() as tape:
        values = Triplet(margin=10.0, mining=mining).call(np.array(labels), variable)
    np.testing.assert_array_equal(values, np.zeros(4))
    np.testing.assert_array_equal(tape.gradient(values, variable), np.zeros((4, 5)))


@pytest.mark.parametrize("mining", ALL_MININGS)
def test_an_anchor_without_a_positive_has_no_part(make_batch, mining):
    embeddings = make_batch(4)[1]
    values = Triplet(margin=10.0, mining=mining).call(np.array([0, 0, 0, 1]), embeddings).numpy()
    assert values[3] == 0 and np.all(values[:3] > 0)


def test_unknown_mining_names_the_known():
    with pytest.raises(
        ValueError,
        match="'all', 'semi_hard', 'hard', 'batch_hard', 'distance_weighted', 'given'; received 'semihard'",
    ):
        Triplet(mining="semihard")


def test_bad_cutoffs_are_told():
    with pytest.raises(ValueError, match="above the cutoff of 0.5, or None, received 0.1"):
        Triplet(nonzero_loss_cutoff=0.1)

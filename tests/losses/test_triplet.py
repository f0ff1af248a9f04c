import numpy as np
import pytest

from tests.losses.loops import assert_is_gradient, distance, triplet, value_and_gradient
from tests.of_batches import of_batches
from tfdml.losses import Triplet

MININGS = ["all", "semi_hard", "hard", "batch_hard"]


of_every_margin = pytest.mark.parametrize("margin, normalised", [(0.0, True), (0.2, True), (0.2, False), (3.0, False)])
of_every_batch = of_batches("size, classes, dim", [(2, 2, 2), (7, 2, 3), (20, 3, 2), (13, 5, 8)])


def naive_expectation(labels, embeddings, margin, shares, power=2):
    """What distance-weighted sampling costs on average, triplet by triplet; `shares(anchor, negatives)` are chances."""
    values, size = [], len(labels)
    for anchor in range(size):
        distances = [distance(embeddings[anchor], other) ** power for other in np.asarray(embeddings, np.float64)]
        positives = [j for j in range(size) if j != anchor and labels[j] == labels[anchor]]
        negatives = [j for j in range(size) if labels[j] != labels[anchor]]
        chances = shares(anchor, negatives) if negatives else []
        value = sum(
            chance * max(0.0, distances[positive] - distances[negative] + margin)
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
            [distance(rows[anchor], rows[j]) for j in negatives], dim, **limits
        )

    return make


@of_every_margin
@of_every_batch
@pytest.mark.few_by_day(6)
def test_distance_weighted_is_equal_to_a_loop(
    make_batch, shares_of, size, classes, dim, dtype, tolerance, margin, normalised
):
    labels, embeddings = make_batch(size, classes, dim, dtype=dtype, normalised=normalised)
    for squares in (True, False):
        values = Triplet(
            margin=margin, mining="distance_weighted", distance="squared_euclidean" if squares else "euclidean"
        ).call(labels, embeddings)
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
    _, gradient = value_and_gradient(Triplet(mining="distance_weighted"), labels, embeddings)
    shares = shares_of(embeddings)
    assert np.abs(gradient).max() > 1e-2
    assert_is_gradient(gradient, lambda rows: naive_expectation(labels, rows, 0.2, shares), embeddings)


@pytest.mark.parametrize("mining", MININGS)
def test_ties_are_broken_as_in_the_loop(mining):
    # Whole numbers, so that equal distances are equal in every bit.
    embeddings = np.random.default_rng(0).integers(0, 2, (14, 3)).astype("float32")
    labels = np.arange(14) % 4
    values = Triplet(margin=0.5, mining=mining).call(labels, embeddings)
    np.testing.assert_allclose(values, triplet(labels, embeddings, 0.5, mining), rtol=1e-6)

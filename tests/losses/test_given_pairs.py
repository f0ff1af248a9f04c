"""Losses of pairs and triplets that the sampler gives, Equations (1) and (2) of Lifted Structure."""

import numpy as np
import pytest
import tensorflow as tf

from tests.losses.loops import distance
from tfdml.losses import Contrastive, NPair, Triplet


@pytest.fixture
def embeddings():
    return np.random.default_rng(3).normal(size=(12, 5))


def squared(x, y):
    return distance(x, y) ** 2


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("margin", [1.0, 4.0])
def test_contrastive_is_the_article(embeddings, margin, power):
    """Power 2; with power 1 it is (10) of Attention-based Ensemble over the given pairs."""
    labels = np.array([0, 1, 2, 3, 0, 1, 0, 1, 2, 4, 5, 6])
    total = 0.0
    for first, second in [(0, 6), (1, 7), (2, 8), (3, 9), (4, 10), (5, 11)]:
        apart = distance(embeddings[first], embeddings[second])
        total += apart**2 if labels[first] == labels[second] else max(0.0, margin - apart) ** power
    options = {"squared_negatives": power == 2, "pairs": "given"}
    values = Contrastive(margin=margin, **options).call(labels, embeddings).numpy()
    assert values.mean() == pytest.approx(total / 12, rel=1e-10)
    # Both ends of a pair have the same value.
    np.testing.assert_allclose(values[:6], values[6:], rtol=1e-12)
    # The margin of 4 pushes each negative pair.
    assert margin == 1.0 or np.all(values > 0)


@pytest.mark.parametrize("margin", [1.0, 4.0])
def test_triplet_is_the_article(embeddings, margin):
    labels = np.array([0, 1, 2, 3, 0, 1, 2, 3, 1, 2, 3, 0])
    total = 0.0
    for anchor in range(4):
        pulled = squared(embeddings[anchor], embeddings[anchor + 4])
        total += max(0.0, pulled - squared(embeddings[anchor], embeddings[anchor + 8]) + margin)
    values = Triplet(margin=margin, mining="given").call(labels, embeddings).numpy()
    assert total > 0
    assert values.mean() == pytest.approx(3 / (2 * 12) * total, rel=1e-10)
    np.testing.assert_array_equal(values[4:], np.zeros(8))


def test_only_triplets_of_two_classes_count(embeddings):
    # Of the first, the second is of another class; of the second, the last is of its own; the third is right.
    labels = np.array([0, 1, 2, 3, 1, 2, 7, 1, 2 * 4])
    values = Triplet(margin=100.0, mining="given").call(labels, embeddings[:9]).numpy()
    assert values[0] == 0.0 and values[1] == 0.0 and values[2] > 0.0


def test_rows_that_are_not_paired_do_not_move(embeddings):
    variable = tf.Variable(embeddings[:7])
    with tf.GradientTape() as tape:
        values = Contrastive(pairs="given").call([0, 1, 2, 0, 1, 2, 0], variable)
    moved = np.abs(tape.gradient(values, variable).numpy()).sum(axis=1) > 0
    # An odd row is left over.
    np.testing.assert_array_equal(moved, [True] * 6 + [False])


@pytest.mark.parametrize("mean", ["pairs", "anchors"])
def test_means_are_over_drawn_pairs(embeddings, mean):
    """Rows of one class that the sampler did not draw as a pair do not count."""
    labels = np.array([0, 0, 0, 1, 2, 3, 0, 0, 0, 1, 2, 3])
    apart = np.array([distance(embeddings[row], embeddings[row + 6]) ** 2 / 2 for row in range(6)])
    values = Contrastive(margin=0.0, pairs="given", mean=mean, reduction="sum_over_batch_size")(labels, embeddings)
    assert float(values) == pytest.approx(apart.mean(), rel=1e-6)


def test_arguments_without_effect_are_told():
    with pytest.warns(UserWarning, match="mean='pairs' has no effect with mining='given'"):
        Triplet(mining="given", mean="pairs")
    with pytest.warns(UserWarning, match="mining='hard' has no effect with negatives='first_pair_per_class'"):
        NPair(negatives="first_pair_per_class", mining="hard")

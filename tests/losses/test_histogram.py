import numpy as np
import pytest
import tensorflow as tf

from tests.of_batches import of_batches
from tfdml.losses import Histogram


def cosine(x, y):
    product = sum(a * b for a, b in zip(x, y, strict=True))
    return product / (sum(a * a for a in x) * sum(b * b for b in y)) ** 0.5


def histogram(similarities, bins):
    """Node by node, as the paper defines it: a triangle of the width of two steps around each node."""
    step = 2 / bins
    nodes = [-1 + number * step for number in range(bins + 1)]
    return [sum(max(0.0, 1 - abs(s - node) / step) for s in similarities) / len(similarities) for node in nodes]


def naive(labels, embeddings, bins):
    """The value of the batch: pairs, each once, make two histograms."""
    embeddings = np.asarray(embeddings, np.float64)
    similarities = {True: [], False: []}
    for i in range(len(labels)):
        for j in range(i):
            similarities[bool(labels[i] == labels[j])].append(cosine(embeddings[i], embeddings[j]))
    if not similarities[True] or not similarities[False]:
        return 0.0
    positive, negative = histogram(similarities[True], bins), histogram(similarities[False], bins)
    return sum(negative[r] * sum(positive[: r + 1]) for r in range(bins + 1))


@pytest.mark.parametrize("bins", [1, 7, 100])
@of_batches("size, classes, dim", [(2, 2, 2), (7, 2, 3), (13, 5, 8), (20, 1, 2), (6, 99, 3)])
def test_mean_is_the_loss_of_a_loop_over_pairs(make_batch, size, classes, dim, dtype, tolerance, bins):
    for normalised in (True, False):
        labels, embeddings = make_batch(size, classes, dim, dtype=dtype, normalised=normalised)
        values = Histogram(bins=bins).call(labels, embeddings)
        assert values.shape == (size,) and values.dtype == dtype
        assert np.mean(values) == pytest.approx(naive(labels, embeddings, bins), rel=tolerance, abs=tolerance)


def test_an_anchor_has_the_part_of_its_own_negatives(make_batch):
    labels, embeddings = make_batch(9, 3, dtype="float64")
    values = Histogram(bins=10).call(labels, embeddings).numpy()
    pairs = [(i, j) for i in range(9) for j in range(9) if i != j]
    similarity = {(i, j): cosine(embeddings[i], embeddings[j]) for i, j in pairs}
    positive = np.cumsum(histogram([similarity[i, j] for i, j in pairs if labels[i] == labels[j]], 10))
    negatives = [(i, j) for i, j in pairs if labels[i] != labels[j]]
    for anchor in range(9):
        own = [similarity[i, j] for i, j in negatives if i == anchor]
        part = np.dot(histogram(own, 10), positive) * len(own) / len(negatives)
        assert values[anchor] == pytest.approx(9 * part)


def test_of_some_anchors_only_their_pairs_count(make_batch):
    labels, embeddings = make_batch(9, 3, dtype="float64")
    similarities = {True: [], False: []}
    for i in range(6):
        for j in set(range(9)) - {i}:
            similarities[bool(labels[i] == labels[j])].append(cosine(embeddings[i], embeddings[j]))
    positive, negative = (np.array(histogram(similarities[same], 10)) for same in (True, False))
    values = Histogram(bins=10).call(labels, embeddings, 6)
    assert values.shape == (6,) and np.mean(values) == pytest.approx(negative @ np.cumsum(positive))


def test_by_hand():
    # Cosines on nodes: of the positive pair 0, of the negative pairs -1 and 0; nodes -1, 0, 1, of which 0 is the first
    # that the positive pair reaches.
    embeddings = np.array([[2.0, 0.0], [0.0, 1.0], [-3.0, 0.0]])
    values = Histogram(bins=2).call([4, 4, 6], embeddings)
    np.testing.assert_allclose(values, [0.0, 3 / 4, 3 / 4], atol=1e-12)


def test_chance_that_a_positive_pair_is_less_similar():
    # Positive pairs at cosine 1, negative pairs at -1, and the other way round.
    embeddings = np.repeat([[1.0, 0.0], [-1.0, 0.0]], 3, axis=0)
    assert np.mean(Histogram().call([0, 0, 0, 1, 1, 1], embeddings)) == pytest.approx(0.0, abs=1e-12)
    assert np.mean(Histogram().call([0, 1], embeddings[:2])) == 0.0
    embeddings = np.array([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    assert np.mean(Histogram().call([0, 0, 1, 1], embeddings)) == pytest.approx(1.0)


@pytest.mark.parametrize("labels", [[1, 1, 1, 1], [0, 1, 2, 3]], ids=["one class", "all different"])
def test_without_both_kinds_of_pairs_it_is_zero_with_zero_gradient(make_batch, labels):
    variable = tf.Variable(make_batch(4)[1])
    with tf.GradientTape() as tape:
        values = Histogram().call(np.array(labels), variable)
    np.testing.assert_array_equal(values, np.zeros(4))
    np.testing.assert_array_equal(tape.gradient(values, variable), np.zeros((4, 5)))


@pytest.mark.parametrize("bins", [0, -1, 2.5, "10", True, None])
def test_bad_bins_are_told(bins):
    with pytest.raises(ValueError, match=f"bins to be an integer of 1 or more; received {bins!r}"):
        Histogram(bins=bins)

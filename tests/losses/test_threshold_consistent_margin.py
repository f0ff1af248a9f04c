import numpy as np
import pytest
import tensorflow as tf

from tests.of_batches import of_batches
from tfdml import registry
from tfdml.losses import ThresholdConsistentMargin


def naive(labels, embeddings, positive_margin=0.9, negative_margin=0.5, positive_weight=1.0, negative_weight=1.0):
    """The regularizer of the whole batch, pair by pair."""
    rows = [row / np.sqrt(np.sum(row**2)) for row in np.asarray(embeddings, np.float64)]
    positives, negatives = [], []
    for i, label in enumerate(labels):
        for j, other in enumerate(labels):
            similarity = np.sum(rows[i] * rows[j])
            if i != j and label == other and similarity < positive_margin:
                positives.append(positive_margin - similarity)
            if label != other and similarity > negative_margin:
                negatives.append(similarity - negative_margin)
    means = [np.mean(costs) if costs else 0.0 for costs in (positives, negatives)]
    return positive_weight * means[0] + negative_weight * means[1]


@pytest.mark.parametrize(
    "arguments",
    [{}, {"positive_margin": 0.2, "negative_margin": -0.3}, {"positive_weight": 0.3, "negative_weight": 2.0}],
    ids=str,
)
@of_batches("size, classes, dim", [(2, 2, 2), (7, 2, 3), (13, 5, 8), (20, 1, 2), (6, 99, 3)], (1e-5, 1e-10))
def test_the_mean_is_that_of_a_loop_over_pairs(make_batch, size, classes, dim, dtype, tolerance, arguments):
    for normalised in (True, False):
        labels, embeddings = make_batch(size, classes, dim, dtype=dtype, normalised=normalised)
        values = ThresholdConsistentMargin(**arguments).call(labels, embeddings)
        assert values.dtype == dtype and values.shape == (size,)
        expected = naive(labels, embeddings, **arguments)
        np.testing.assert_allclose(np.mean(values), expected, rtol=tolerance, atol=tolerance)


def test_by_hand():
    # Cosines: 0.6 within the class; 0.8 and 0 between classes. One positive pair and one negative pair cost something.
    embeddings = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    values = ThresholdConsistentMargin().call([5, 5, 9], embeddings)
    np.testing.assert_allclose(values, 3 * np.array([0.3 / 2, 0.3 / 2 + 0.3 / 2, 0.3 / 2]))


def test_consistent_classes_cost_nothing(make_batch):
    variable = tf.Variable(np.eye(4)[[0, 0, 1, 1]])
    with tf.GradientTape() as tape:
        values = ThresholdConsistentMargin().call([0, 0, 1, 1], variable)
    np.testing.assert_array_equal(values, np.zeros(4))
    np.testing.assert_array_equal(tape.gradient(values, variable), np.zeros((4, 4)))


def test_a_term_of_a_sum(make_batch):
    labels, embeddings = make_batch(12, 4)
    both = registry.create("loss", "multi_similarity+0.5*threshold_consistent_margin(positive_margin=0.8)")
    alone = registry.create("loss", "multi_similarity")(labels, embeddings)
    np.testing.assert_allclose(
        both(labels, embeddings), alone + 0.5 * naive(labels, embeddings, positive_margin=0.8), rtol=1e-5
    )


def test_weights_are_not_negative():
    with pytest.raises(ValueError, match="positive_weight to be a number of 0 or more; received -1"):
        ThresholdConsistentMargin(positive_weight=-1)

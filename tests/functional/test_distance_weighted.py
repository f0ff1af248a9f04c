import math

import numpy as np
import pytest
import tensorflow as tf

from tests.of_batches import of_batches
from tfdml.functional.distances import distances
from tfdml.functional.pairs import negative_pairs, negative_weights


@pytest.mark.parametrize("limits", [(0.5, 1.4), (0.9, 1.1), (0.2, None)])
@of_batches("size, classes, dim", [(1, 1, 3), (2, 2, 2), (7, 2, 3), (13, 5, 8), (6, 1, 4), (9, 99, 1)])
def test_equal_to_a_loop_over_negatives(make_batch, negative_shares, size, classes, dim, dtype, tolerance, limits):
    for normalised in (True, False):
        labels, embeddings = make_batch(size, classes, dim, dtype=dtype, normalised=normalised)
        distance = distances(embeddings)
        negatives = negative_pairs(tf.constant(labels))
        weights = negative_weights(distance, negatives, dim, cutoff=limits[0], nonzero_loss_cutoff=limits[1])
        assert weights.dtype == dtype
        for row, (mine, own, others) in enumerate(
            zip(weights.numpy(), distance.numpy(), negatives.numpy(), strict=True)
        ):
            assert not mine[~others].any(), row
            expected = negative_shares(own[others].tolist(), dim, *limits)
            np.testing.assert_allclose(mine[others], expected, rtol=tolerance, atol=tolerance)


def drawn(from_distances, dim, **limits):
    """Shares of the negatives at these distances of one anchor."""
    size = len(from_distances) + 1
    distance, negatives = np.zeros((size, size), "float32"), np.zeros((size, size), bool)
    distance[0, 1:], negatives[0, 1:] = from_distances, True
    weights = negative_weights(tf.constant(distance), tf.constant(negatives), dim, **limits).numpy()
    assert not weights[1:].any()
    return weights[0, 1:]


def test_far_negatives_are_drawn_only_where_there_is_no_other():
    np.testing.assert_array_equal(drawn([1.39, 1.4, 1.9, 2.5], 6), [1, 0, 0, 0])
    np.testing.assert_array_equal(drawn([1.5, 1.4, 1.9, 2.5], 6), [0.25] * 4)
    np.testing.assert_array_equal(drawn([1.5, 1.4, 1.9, 2.5], 6, nonzero_loss_cutoff=1.45), [0, 1, 0, 0])


def test_hundreds_of_dimensions():
    near, far = 1.3, 1.301
    shares = drawn([near, far], 512)
    ratio = 510 * math.log(far / near) + 254.5 * math.log((1 - far**2 / 4) / (1 - near**2 / 4))
    assert shares[0] / shares[1] == pytest.approx(math.exp(ratio), rel=1e-3)
    np.testing.assert_array_equal(drawn([0.0, 0.5, 1.3], 512), [0.5, 0.5, 0])
    np.testing.assert_array_equal(drawn([0.6, 2.0, 2.0], 512, nonzero_loss_cutoff=None), [0, 0.5, 0.5])


def test_no_gradient(make_batch):
    labels, embeddings = make_batch()
    variable = tf.Variable(embeddings)
    with tf.GradientTape() as tape:
        weights = negative_weights(distances(variable), negative_pairs(tf.constant(labels)), 5)
    assert tape.gradient(weights, variable) is None


@pytest.mark.parametrize(
    "limits, message",
    [
        ({"cutoff": 0.0}, "cutoff to be a number above 0 and below 2. Received: cutoff=0.0"),
        ({"cutoff": 2.0}, "cutoff to be a number above 0 and below 2. Received: cutoff=2.0"),
        ({"nonzero_loss_cutoff": 0.5}, "above the cutoff of 0.5. Received: nonzero_loss_cutoff=0.5"),
        ({"cutoff": 1.6}, "above the cutoff of 1.6. Received: nonzero_loss_cutoff=1.4"),
    ],
)
def test_bad_cutoffs_are_told(limits, message):
    with pytest.raises(ValueError, match=message):
        drawn([1.0], 3, **limits)

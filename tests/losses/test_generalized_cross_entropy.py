import math

import numpy as np
import pytest
import tensorflow as tf

from tests.of_batches import of_batches
from tfdml.losses import GeneralizedCrossEntropy, NormSoftmax


def naive(labels, similarities, q, temperature):
    """The equation, class by class."""
    values = []
    for label, row in zip(labels, np.asarray(similarities, np.float64), strict=True):
        exponentials = [math.exp(cosine / temperature) for cosine in row]
        values.append((1 - (exponentials[label] / sum(exponentials)) ** q) / q)
    return values


@pytest.mark.parametrize("q", [0.1, 0.7, 1.0])
@of_batches("size, classes", [(1, 2), (7, 3), (13, 20)])
def test_equal_to_a_loop_over_classes(make_similarities, size, classes, dtype, tolerance, q):
    labels, similarities = make_similarities(size, classes, dtype=dtype)
    values = GeneralizedCrossEntropy(q=q, temperature=0.2).call(labels, similarities)
    assert values.dtype == dtype
    np.testing.assert_allclose(values, naive(labels, similarities, q, 0.2), rtol=tolerance, atol=tolerance)


def test_near_0_it_is_cross_entropy(make_similarities):
    labels, similarities = make_similarities(dtype="float64")
    values = GeneralizedCrossEntropy(q=1e-7, temperature=0.5).call(labels, similarities)
    np.testing.assert_allclose(values, NormSoftmax(temperature=0.5).call(labels, similarities), rtol=1e-5)


def test_an_improbable_class_pulls_less_than_with_cross_entropy():
    # The class of the first row is improbable, as where its label is wrong.
    similarities = tf.Variable([[-1.0, 1.0], [0.2, 0.0]])
    shares = []
    for loss in (GeneralizedCrossEntropy(temperature=0.2), NormSoftmax(temperature=0.2)):
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(loss.call([0, 0], similarities))
        pulls = np.abs(tape.gradient(value, similarities)[:, 0])
        shares.append(pulls[0] / pulls.sum())
    assert shares[0] < 0.1 and shares[1] > 0.7


@pytest.mark.parametrize("q", [0.0, 1.5])
def test_bad_arguments_are_told(q):
    with pytest.raises(ValueError, match="q to be a number above 0"):
        GeneralizedCrossEntropy(q=q)

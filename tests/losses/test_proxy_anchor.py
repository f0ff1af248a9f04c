import math

import numpy as np
import pytest
import tensorflow as tf

from tests.of_batches import of_batches
from tfdml.losses import ProxyAnchor


def terms(labels, similarities, scale, margin):
    """For each proxy the images that it pulls and pushes with what it costs, from the words of the paper."""
    similarities = np.asarray(similarities, np.float64)
    for proxy in range(similarities.shape[1]):
        near = [x for x, label in enumerate(labels) if label == proxy]
        far = [x for x, label in enumerate(labels) if label != proxy]
        pull = math.log1p(sum(math.exp(-scale * (similarities[x, proxy] - margin)) for x in near))
        push = math.log1p(sum(math.exp(scale * (similarities[x, proxy] + margin)) for x in far))
        yield near, pull, far, push


def batch_loss(labels, similarities, scale=32.0, margin=0.1):
    """Equation (4) of the paper, a number for the whole batch."""
    proxies = list(terms(labels, similarities, scale, margin))
    pulls = [pull for near, pull, _, _ in proxies if near]
    return sum(pulls) / len(pulls) + sum(push for _, _, _, push in proxies) / len(proxies)


def naive(labels, similarities, scale=32.0, margin=0.1):
    """What each image has of it: an even share of every term it is in, times the size of the batch."""
    values = [0.0] * len(labels)
    proxies = list(terms(labels, similarities, scale, margin))
    present = sum(1 for near, *_ in proxies if near)
    for near, pull, far, push in proxies:
        for x in near:
            values[x] += len(labels) * pull / len(near) / present
        for x in far:
            values[x] += len(labels) * push / len(far) / len(proxies)
    return values


@pytest.mark.parametrize("arguments", [{}, {"scale": 2.0}, {"margin": 0.0}, {"scale": 10.0, "margin": 0.5}])
@of_batches("size, classes", [(1, 2), (7, 3), (13, 20), (30, 5), (4, 1)])
def test_equal_to_a_loop_over_proxies(make_similarities, size, classes, dtype, tolerance, arguments):
    labels, similarities = make_similarities(size, classes, dtype=dtype)
    values = ProxyAnchor(**arguments).call(labels, similarities)
    assert values.dtype == dtype
    np.testing.assert_allclose(values, naive(labels, similarities, **arguments), rtol=tolerance, atol=tolerance)
    expected = batch_loss(labels, similarities, **arguments)
    np.testing.assert_allclose(np.mean(values), expected, rtol=tolerance)


def test_by_hand():
    # Two images of class 0, one of class 1, none of class 2; with scale 1 and no margin.
    similarities = np.log([[2.0, 3.0, 4.0], [0.5, 1.0, 1.0], [1.0, 0.25, 5.0]])
    values = ProxyAnchor(scale=1.0, margin=0.0).call([0, 0, 1], similarities)
    pulls = [math.log(1 + 1 / 2 + 2), math.log(1 + 4)]
    pushes = [math.log(1 + 1), math.log(1 + 3 + 1), math.log(1 + 4 + 1 + 5)]
    np.testing.assert_allclose(np.mean(values), sum(pulls) / 2 + sum(pushes) / 3)
    assert float(values[2]) == pytest.approx(3 * (pulls[1] / 2 + (pushes[0] + pushes[2] / 3) / 3))


def test_only_classes_in_the_batch_are_pulled():
    similarities = tf.Variable(np.zeros((4, 3)))
    with tf.GradientTape() as tape:
        value = tf.reduce_mean(ProxyAnchor().call([0, 0, 1, 1], similarities))
    gradient = tape.gradient(value, similarities)
    assert np.all(gradient[:2, 0] < 0) and np.all(gradient[2:, 1] < 0)
    assert np.all(gradient[2:, 0] > 0) and np.all(gradient[:2, 1] > 0) and np.all(gradient[:, 2] > 0)


def test_a_class_with_all_images_pushes_none():
    similarities = np.full((3, 2), 0.2)
    values = ProxyAnchor(scale=1.0, margin=0.0).call([1, 1, 1], similarities)
    expected = math.log(1 + 3 * math.exp(-0.2)) + math.log(1 + 3 * math.exp(0.2)) / 2
    np.testing.assert_allclose(values, [expected] * 3)


def test_a_large_scale_does_not_overflow(make_similarities):
    labels, similarities = make_similarities()
    variable = tf.Variable(similarities)
    with tf.GradientTape() as tape:
        values = ProxyAnchor(scale=1e4).call(labels, variable)
    assert np.all(np.isfinite(values)) and np.all(np.isfinite(tape.gradient(values, variable)))


def test_bad_arguments_are_told():
    with pytest.raises(ValueError, match="scale to be a number above 0; received 0.0"):
        ProxyAnchor(scale=0.0)

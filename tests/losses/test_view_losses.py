"""The losses that compare views of an image: Barlow Twins, SimSiam and VICReg."""

import numpy as np
import pytest

from tests.losses.loops import value_and_gradient
from tfdml.losses import BarlowTwins, SimSiam, VICReg


def barlow_twins(first, second, weight):
    """Equations (1) and (2) of two batches of views."""
    first, second = first - first.mean(axis=0), second - second.mean(axis=0)
    dims, value = first.shape[1], 0.0
    for i in range(dims):
        for j in range(dims):
            length = np.sqrt(np.sum(first[:, i] ** 2)) * np.sqrt(np.sum(second[:, j] ** 2))
            correlation = np.sum(first[:, i] * second[:, j]) / length
            value += (1 - correlation) ** 2 if i == j else weight * correlation**2
    return value


@pytest.mark.parametrize("weight", [0.005, 0.5])
@pytest.mark.parametrize("images", [4, 8])
def test_equal_to_the_equations(weight, images):
    views = np.random.default_rng(0).normal(size=(2 * images, 4)) * [1, 2, 3, 4] + [0, 1, 5, 0]
    expected = barlow_twins(views[:images], views[images:], weight)
    labels = np.tile(np.arange(images), 2)
    values = BarlowTwins(weight=weight).call(labels, views)
    np.testing.assert_allclose(values, np.full(2 * images, expected), rtol=1e-9)
    # Views of an image next to each other.
    order = np.arange(2 * images).reshape(2, images).T.ravel()
    np.testing.assert_allclose(BarlowTwins(weight=weight).call(labels[order], views[order]), values, rtol=1e-9)


def test_of_several_views_each_pair_counts_in_its_order():
    views = np.random.default_rng(0).normal(size=(11, 4))
    labels = np.array([3, 1, 1, 3, 2, 3, 1, 2, 1, 0, 2])
    pairs = [(i, j) for j in range(11) for i in range(j) if labels[i] == labels[j]]
    expected = barlow_twins(views[[i for i, _ in pairs]], views[[j for _, j in pairs]], 0.5)
    values = BarlowTwins(weight=0.5).call(labels, views)
    np.testing.assert_allclose(values, np.where(labels > 0, expected, 0), rtol=1e-9)


@pytest.mark.parametrize("loss", [BarlowTwins(), VICReg()])
def test_an_image_with_one_view_is_left_out(loss):
    views = np.random.default_rng(0).normal(size=(7, 3))
    values = loss.call([0, 1, 2, 0, 1, 2, 9], views).numpy()
    np.testing.assert_allclose(values[:6], loss.call([0, 1, 2, 0, 1, 2], views[:6]), rtol=1e-9)
    assert values[6] == 0


def test_the_loss_takes_projections():
    loss = BarlowTwins(projector=(8, 5))
    rows = np.random.default_rng(0).normal(size=(6, 3)).astype("float32")
    taken = loss.make_layer()(rows)
    assert taken.shape == (6, 1, 5) and BarlowTwins(projector=()).make_layer() is None
    expected = BarlowTwins().call([0, 1, 2, 0, 1, 2], taken[:, 0])[0]
    np.testing.assert_allclose(loss([0, 1, 2, 0, 1, 2], taken), expected, rtol=1e-6)
    with pytest.raises(ValueError, match=r"Projector. Expected shape \[batch, 1, dim\]. Received: shape=\(6, 3\)"):
        loss([0, 1, 2, 0, 1, 2], rows)


def vicreg(first, second, invariance, variance, covariance, target):
    """Equation (6) of two batches of views, the distance as in Algorithm 1."""

    def v(rows):
        return np.mean([max(0.0, target - np.sqrt(np.var(column, ddof=1) + 1e-4)) for column in rows.T])

    def c(rows):
        found = np.cov(rows, rowvar=False)
        return sum(found[i, j] ** 2 for i in range(len(found)) for j in range(len(found)) if i != j) / len(found)

    s = np.mean((first - second) ** 2)
    return invariance * s + variance * (v(first) + v(second)) + covariance * (c(first) + c(second))


WEIGHTS = {"invariance": 3.0, "variance": 2.0, "covariance": 5.0, "target": 1.5}


@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0])
def test_its_mean_is_the_equation_on_pairs_in_both_orders(scale):
    views = np.random.default_rng(0).normal(size=(14, 4)) * scale + [0, 1, 5, 0]
    one, other = views[:7], views[7:]
    expected = vicreg(np.concatenate([one, other]), np.concatenate([other, one]), **WEIGHTS)
    values = VICReg(**WEIGHTS).call(np.tile(np.arange(7), 2), views)
    assert np.mean(values) == pytest.approx(expected, rel=1e-9)


def cosine(one, other):
    return one @ other / np.linalg.norm(one) / np.linalg.norm(other)


@pytest.fixture
def taken():
    """Predictions and embeddings of two views of five images, and of one view of another."""
    return np.random.default_rng(0).normal(size=(11, 2, 6)), np.array([*range(5), *range(5), 9])


def test_its_mean_is_the_symmetric_loss_of_the_paper(taken):
    rows, labels = taken
    predictions, embeddings = rows[:, 0], rows[:, 1]
    values = SimSiam().call(labels, rows).numpy()
    symmetric = [
        -cosine(predictions[n], embeddings[n + 5]) / 2 - cosine(predictions[n + 5], embeddings[n]) / 2 for n in range(5)
    ]
    assert np.mean(values[:10]) == pytest.approx(np.mean(symmetric)) and values[10] == 0


def test_embeddings_are_constant_to_the_gradient(taken):
    rows, labels = taken
    _, gradient = value_and_gradient(SimSiam(), labels, rows)
    assert np.all(gradient[:, 1] == 0) and np.all(np.any(gradient[:10, 0] != 0, axis=1))


def test_of_several_views_it_is_the_mean_over_the_others(taken):
    rows, _ = taken
    expected = -np.mean([cosine(rows[0, 0], rows[n, 1]) for n in (1, 2)])
    assert SimSiam().call(np.zeros(3, int), rows[:3]).numpy()[0] == pytest.approx(expected)


def test_the_predictor_has_a_hidden_layer_of_a_quarter():
    layer = SimSiam().make_layer()
    rows = np.random.default_rng(0).normal(size=(8, 12)).astype("float32")
    taken = layer(rows)
    np.testing.assert_array_equal(taken[:, 1], rows)
    first, second = layer.kernels
    assert first.shape == (12, 3) and second.shape == (3, 12)
    hidden = rows @ first.numpy()
    hidden = np.maximum((hidden - hidden.mean(axis=0)) / np.sqrt(hidden.var(axis=0) + 1e-3), 0)
    np.testing.assert_allclose(taken[:, 0], hidden @ second.numpy(), rtol=1e-4, atol=1e-5)


def test_what_does_not_fit_is_told(taken):
    rows, labels = taken
    with pytest.raises(ValueError, match=r"Predictor. Expected shape \[batch, 2, dim\]. Received: shape=\(11, 6\)"):
        SimSiam()(labels, rows[:, 0])
    with pytest.warns(UserWarning, match="All labels of the batch are different"):
        SimSiam()(np.arange(11), rows)

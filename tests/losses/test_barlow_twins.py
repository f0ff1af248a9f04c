import numpy as np
import pytest

from tfdml.losses import BarlowTwins


def naive(first, second, weight):
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
    expected = naive(views[:images], views[images:], weight)
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
    expected = naive(views[[i for i, _ in pairs]], views[[j for _, j in pairs]], 0.5)
    values = BarlowTwins(weight=0.5).call(labels, views)
    np.testing.assert_allclose(values, np.where(labels > 0, expected, 0), rtol=1e-9)


def test_an_image_with_one_view_is_left_out():
    views = np.random.default_rng(0).normal(size=(7, 3))
    values = BarlowTwins().call([0, 1, 2, 0, 1, 2, 9], views).numpy()
    np.testing.assert_allclose(values[:6], BarlowTwins().call([0, 1, 2, 0, 1, 2], views[:6]), rtol=1e-9)
    assert values[6] == 0


def test_the_loss_takes_projections():
    loss = BarlowTwins(projector=(8, 5))
    rows = np.random.default_rng(0).normal(size=(6, 3)).astype("float32")
    taken = loss.make_layer()(rows)
    assert taken.shape == (6, 1, 5) and BarlowTwins(projector=()).make_layer() is None
    expected = BarlowTwins().call([0, 1, 2, 0, 1, 2], taken[:, 0])[0]
    np.testing.assert_allclose(loss([0, 1, 2, 0, 1, 2], taken), expected, rtol=1e-6)
    with pytest.raises(ValueError, match=r"Projector gives: expected shape \[batch, 1, dim\], received shape \(6, 3\)"):
        loss([0, 1, 2, 0, 1, 2], rows)
    with pytest.raises(ValueError, match="projector to be a tuple of integers"):
        BarlowTwins(projector=(0,))

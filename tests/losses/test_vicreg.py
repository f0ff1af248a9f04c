import numpy as np
import pytest

from tfdml.losses import VICReg


def naive(first, second, invariance, variance, covariance, target):
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
    expected = naive(np.concatenate([one, other]), np.concatenate([other, one]), **WEIGHTS)
    values = VICReg(**WEIGHTS).call(np.tile(np.arange(7), 2), views)
    assert np.mean(values) == pytest.approx(expected, rel=1e-9)


def test_an_image_with_one_view_is_left_out():
    views = np.random.default_rng(0).normal(size=(7, 3))
    values = VICReg().call([0, 1, 2, 0, 1, 2, 9], views).numpy()
    np.testing.assert_allclose(values[:6], VICReg().call([0, 1, 2, 0, 1, 2], views[:6]), rtol=1e-9)
    assert values[6] == 0


def test_bad_arguments_are_told():
    with pytest.raises(ValueError, match="variance to be a number of 0 or more"):
        VICReg(variance=-1.0)

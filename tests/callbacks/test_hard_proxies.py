"""Hard proxies: equation (7) of EDMS and its minimum on the sphere."""

import tracemalloc

import numpy as np
import pytest

from tfdml.callbacks.proxies import hard_proxies, objective
from tfdml.losses.proxy_nca import ProxyNPair

FAST = {"learning_rate": 0.1, "steps": 20000, "tolerance": 1e-10}


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def data(count=5, size=40, dim=8, spread=0.5, seed=0, dtype=np.float64):
    """Features around a center for each of the meta-classes, in no order, and one random image of each."""
    random = np.random.default_rng(seed)
    meta_classes = random.permutation(np.arange(size) % count)
    centers = unit(random.normal(size=(count, dim)))
    features = unit(centers[meta_classes] + spread * random.normal(size=(size, dim)) / np.sqrt(dim)).astype(dtype)
    images = np.array([random.choice(np.flatnonzero(meta_classes == k)) for k in range(count)])
    return features, meta_classes, images


def equation_7(p, features, meta_classes, images, k):
    """Its value for the meta-class k at a single p, or at several."""
    start = features[images[k]]
    others = np.array([n for n in range(len(features)) if meta_classes[n] == k and n != images[k]], int)
    return np.log(1 + np.sum(np.exp(p @ features[others].T - (p @ start)[..., None]), axis=-1))


def sphere_points(dim):
    """Evenly distributed points: neighbors are 3e-4 apart on the circle, about 0.008 on the sphere."""
    if dim == 2:
        angles = np.linspace(0, 2 * np.pi, 20000, endpoint=False)
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)
    place = np.arange(200_000) + 0.5
    height, angles = 1 - 2 * place / len(place), np.pi * (1 + np.sqrt(5)) * place
    radius = np.sqrt(1 - height**2)
    return np.stack([radius * np.cos(angles), radius * np.sin(angles), height], axis=1)


def test_values_are_those_of_the_equation_and_gradients_those_of_numerical_differences():
    about = data()
    proxies = np.random.default_rng(1).normal(size=(5, 8))
    values, gradients = objective(proxies, *about)
    small = 1e-6
    for k, p in enumerate(proxies):
        assert values[k] == pytest.approx(equation_7(p, *about, k), abs=1e-12)
        moved = [[equation_7(p + sign * small * axis, *about, k) for sign in (1, -1)] for axis in np.eye(8)]
        np.testing.assert_allclose(gradients[k], [(up - down) / (2 * small) for up, down in moved], atol=1e-8)


@pytest.mark.parametrize("rate", [1e-3, 1e-2, 0.1])
def test_the_value_never_increases(rate):
    about = data(spread=1.0)
    path = [hard_proxies(*about, learning_rate=rate, steps=steps, tolerance=0.0) for steps in range(60)]
    values = np.array([objective(proxies, *about)[0] for proxies in path])
    assert np.all(np.diff(values, axis=0) < 1e-14)
    assert np.all(values[-1] < values[0] - 1e-4)


def test_the_first_step_has_the_length_of_rate_and_gradient():
    features, meta_classes, images = data()
    start = features[images]
    _, gradients = objective(start, features, meta_classes, images)
    along = gradients - np.sum(gradients * start, axis=1, keepdims=True) * start
    moved = hard_proxies(features, meta_classes, images, steps=1)
    np.testing.assert_allclose(moved, unit(start - 1e-3 * along), atol=1e-14, rtol=0)
    np.testing.assert_allclose(hard_proxies(features, meta_classes, images, steps=0), start, atol=1e-15, rtol=0)


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("spread", [0.3, 1.0, 3.0])
def test_no_point_of_a_grid_is_harder(dim, spread):
    about = data(dim=dim, spread=spread, seed=dim)
    proxies = hard_proxies(*about, **FAST)
    points = sphere_points(dim)
    for k, p in enumerate(proxies):
        values = equation_7(points, *about, k)
        assert equation_7(p, *about, k) <= values.min() + 1e-12
        assert points[values.argmin()] @ p > 1 - 1e-3


def test_the_minimum_is_the_difference_of_the_start_and_the_weighted_mean():
    features, meta_classes, images = data(dim=16)
    proxies = hard_proxies(features, meta_classes, images, **FAST)
    for k, p in enumerate(proxies):
        own = features[meta_classes == k]
        mean = np.average(own, axis=0, weights=np.exp(own @ p))
        np.testing.assert_allclose(p, unit(features[images[k]] - mean), atol=1e-7)


def test_without_the_sphere_there_is_no_minimum():
    features, meta_classes, images = data()
    values = np.array([objective(length * features[images], features, meta_classes, images)[0] for length in range(9)])
    assert np.all(np.diff(values, axis=0) < 0)
    assert np.all(objective(1e3 * features[images], features, meta_classes, images)[0] < 1e-3)


@pytest.mark.parametrize(("dtype", "most"), [(np.float32, 1e-6), (np.float64, 1e-13)])
def test_the_block_changes_only_the_rounding(dtype, most):
    about = data(dtype=dtype)
    whole = hard_proxies(*about, learning_rate=0.1, steps=30, block=1000)
    assert whole.dtype == dtype
    for block in (1, 7, 39, 40):
        found = hard_proxies(*about, learning_rate=0.1, steps=30, block=block)
        np.testing.assert_allclose(found, whole, atol=most, rtol=0)


def test_a_meta_class_alone_gives_the_same():
    """Also where tolerance lets proxies stop at different steps."""
    features, meta_classes, images = data(spread=1.0)
    options = {"learning_rate": 0.1, "steps": 1000, "tolerance": 0.05}
    together = hard_proxies(features, meta_classes, images, **options)
    for k in range(5):
        rows = np.flatnonzero(meta_classes == k)
        alone = hard_proxies(features[rows], np.zeros(len(rows), int), np.flatnonzero(rows == images[k]), **options)
        np.testing.assert_allclose(alone[0], together[k], atol=1e-13, rtol=0)


def test_it_stops_where_the_gradient_along_the_sphere_is_small():
    about = data()
    proxies = hard_proxies(*about, learning_rate=0.01, steps=10**5, tolerance=0.02)
    _, gradients = objective(proxies, *about)
    along = gradients - np.sum(gradients * proxies, axis=1, keepdims=True) * proxies
    lengths = np.linalg.norm(along, axis=1)
    assert np.all((lengths > 0.019) & (lengths <= 0.02))


@pytest.mark.parametrize("spread", [0.3, 1.0])
def test_hard_proxies_raise_the_proxy_n_pair_loss(spread):
    """As the paper wants: equation (4) grows from step to step."""
    features, meta_classes, images = data(size=400, dim=16, spread=spread)
    path = [hard_proxies(features, meta_classes, images, steps=steps) for steps in (0, 10, 100, 1000)]
    losses = [np.mean(ProxyNPair().call(meta_classes, features @ proxies.T)) for proxies in path]
    assert np.all(np.diff(losses) > 0), losses


def test_they_move_apart_where_all_features_are_alike():
    """The loss grows here too, but not as the paper says, by proxies that become similar to each other."""
    features, meta_classes, images = data(size=400, dim=16, spread=1.0)
    features = unit(features + 2 * unit(np.ones(16)))
    path = [hard_proxies(features, meta_classes, images, steps=steps) for steps in (0, 100, 1000)]
    losses = [np.mean(ProxyNPair().call(meta_classes, features @ proxies.T)) for proxies in path]
    assert np.all(np.diff(losses) > 0), losses
    mutual = [np.mean((proxies @ proxies.T)[np.triu_indices(5, 1)]) for proxies in path]
    assert mutual[0] > 0.7 and np.all(np.diff(mutual) < -0.01), mutual


def test_an_image_alone_in_its_meta_class_stays():
    features = np.eye(3)[[0, 1, 2, 1]]
    proxies = hard_proxies(features, np.array([0, 1, 2, 2]), np.array([0, 1, 3]), **FAST)
    np.testing.assert_array_equal(proxies[:2], np.eye(3)[:2])
    assert abs(proxies[2, 2]) > 0.1


def test_memory_does_not_grow_with_the_images():
    def peak(size):
        about = data(size=size)
        tracemalloc.start()
        hard_proxies(*about, steps=2, block=64)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    # A copy of the larger features would take 1.2 MB.
    peak(100)
    assert peak(20_000) < peak(1000) + 50_000


def test_what_does_not_fit_is_told():
    features, meta_classes, images = data()
    with pytest.raises(ValueError, match=r"Received: features of shape \(40, 8\) and meta_classes of shape \(39,\)"):
        hard_proxies(features, meta_classes[1:], images)
    with pytest.raises(
        ValueError, match=r"one image of each of the 5 meta-classes, in their order. Received: 5 images"
    ):
        hard_proxies(features, meta_classes, images[::-1])
    with pytest.raises(ValueError, match=r"of each of the 5 meta-classes, in their order. Received: 4 images"):
        hard_proxies(features, meta_classes, images[1:])
    for factor, value in ((2.0, "2"), (np.nan, "nan")):
        broken = features.copy()
        broken[11] *= factor
        with pytest.raises(ValueError, match=f"L2-normalized. Received: a feature of length {value} for image 11"):
            hard_proxies(broken, meta_classes, images, block=4)

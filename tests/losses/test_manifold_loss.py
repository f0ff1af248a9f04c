"""The losses on similarities along the manifold, intrinsic and contextual."""

import math

import numpy as np
import pytest

from tests.of_batches import of_batches
from tfdml.losses import ContextualManifold, IntrinsicManifold

LOSSES = {"intrinsic": IntrinsicManifold, "contextual": ContextualManifold}
of_each_view = pytest.mark.parametrize("view", LOSSES)


def walked(embeddings, proxies, restart, affinity, neighbors):
    """Equation (9) of EDMS with an inverse, in float64; the proxies' columns."""
    nodes = np.concatenate([embeddings, proxies]).astype(np.float64)
    nodes /= np.linalg.norm(nodes, axis=1, keepdims=True)
    cosines = nodes @ nodes.T
    weights = np.maximum(cosines, 0) if affinity == "clipped" else (1 + cosines) / 2
    if neighbors:
        others = np.where(np.eye(len(nodes), dtype=bool), -1.0, weights)
        near = others >= np.sort(others, axis=1)[:, -min(neighbors, len(nodes) - 1), None]
        weights = np.where(near | near.T | np.eye(len(nodes), dtype=bool), weights, 0.0)
    degrees = weights.sum(axis=1)
    steps = weights / np.sqrt(np.outer(degrees, degrees))
    np.fill_diagonal(steps, 0)
    return ((1 - restart) * np.linalg.inv(np.eye(len(nodes)) - restart * steps))[:, len(embeddings) :]


def naive(view, labels, embeddings, proxies, margin=5e-4, scale=1.0, restart=0.8, affinity="clipped", neighbors=None):
    """Equation (11) of EDMS, or (12) of what is seen of all proxies, image by image and proxy by proxy."""
    reached = walked(embeddings, proxies, restart, affinity, neighbors)
    of_proxies = reached[len(embeddings) :]

    def alike(n, j):
        if view == "intrinsic":
            return reached[n, j]
        return sum(reached[n, i] * of_proxies[i, j] for i in range(len(proxies)))

    values = []
    for n, label in enumerate(labels):
        others = [j for j in range(len(proxies)) if j != label]
        values.append(math.log(1 + sum(math.exp(scale * (alike(n, j) - alike(n, label) + margin)) for j in others)))
    return values


def given(loss, size, classes, dim, dtype, normalised):
    rng = np.random.default_rng([size, classes, dim])
    embeddings = rng.normal(size=(size, dim)).astype(dtype)
    if normalised:
        embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    layer = loss.make_layer()
    layer.build((None, dim))
    layer.proxies.assign(rng.normal(size=(classes, dim)))
    return rng.integers(0, classes, size), embeddings, layer


@of_each_view
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"margin": 0.5},
        {"scale": 300.0},
        {"restart": 0.3},
        {"affinity": "shifted", "restart": 0.5},
        {"neighbors": 3},
    ],
    ids=["defaults", "margin", "scale", "restart", "shifted", "neighbors"],
)
@of_batches("size, classes, dim", [(1, 2, 2), (7, 3, 3), (13, 20, 8), (40, 5, 2)], (1e-5, 1e-10))
def test_equal_to_a_loop_over_proxies(view, size, classes, dim, dtype, tolerance, arguments):
    for normalised in (True, False):
        loss = LOSSES[view](classes=classes, reduction=None, dtype=dtype, **arguments)
        labels, embeddings, layer = given(loss, size, classes, dim, dtype, normalised)
        values = loss(labels, layer(embeddings, labels))
        assert values.dtype == dtype
        expected = naive(view, labels, embeddings, layer.proxies.numpy(), **arguments)
        np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)
        # Similarities are small: only float64 tells them for sure from none at all.
        flat = math.log(1 + (classes - 1) * math.exp(arguments.get("scale", 1) * arguments.get("margin", 5e-4)))
        assert dtype == "float32" or np.abs(np.array(expected) - flat).max() > 1e-7


@of_each_view
def test_by_hand(view):
    values = LOSSES[view](margin=0.3).call([1, 0], np.array([[0.2, 0.5], [0.9, 0.9]]))
    np.testing.assert_allclose(values, [math.log(2), math.log(1 + math.exp(0.3))])


@of_each_view
def test_the_layer_has_the_arguments_of_the_walk(view):
    layer = LOSSES[view](classes=9, restart=0.4, affinity="shifted", neighbors=3).make_layer()
    arguments = (layer.classes, layer.view, layer.restart, layer.affinity, layer.neighbors)
    assert arguments == (9, view, 0.4, "shifted", 3)


@of_each_view
def test_bad_arguments_are_told(view):
    with pytest.raises(ValueError, match="restart to be a number above 0 and below 1; received 1.5"):
        LOSSES[view](restart=1.5)
    with pytest.raises(ValueError, match="affinity to be one of 'clipped', 'shifted'; received 'none'"):
        LOSSES[view](affinity="none")

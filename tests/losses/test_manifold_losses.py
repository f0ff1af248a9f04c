"""The losses on similarities along the manifold: intrinsic and contextual, with proxies, and N-pair, of a batch."""

import math

import numpy as np
import pytest

from tests.functional.test_manifold import naive, walked
from tests.losses import loops
from tests.of_batches import of_batches
from tfdml.losses import ContextualManifold, IntrinsicManifold, ManifoldNPair

LOSSES = {"intrinsic": IntrinsicManifold, "contextual": ContextualManifold}
of_each_view = pytest.mark.parametrize("view", LOSSES)


def on_proxies(view, labels, embeddings, proxies, margin=5e-4, scale=1.0, restart=0.8, affinity="clipped", neighbors=0):
    """Equation (11) of EDMS, or (12) of what is seen of all proxies, image by image and proxy by proxy."""
    of_images, of_proxies = naive(embeddings, proxies, restart, affinity, neighbors)
    alike = of_images if view == "intrinsic" else of_images @ of_proxies
    return loops.proxy_n_pair(labels, alike, margin, scale)


def n_pair(labels, embeddings, margin=5e-4, scale=1.0, restart=0.8, affinity="clipped", neighbors=0):
    """Equation (3) of EDMS with these similarities, pair by pair."""
    reached, size, values = walked(embeddings, restart, affinity, neighbors), len(labels), []
    for a in range(size):
        positives = [p for p in range(size) if labels[p] == labels[a] and p != a]
        negatives = [n for n in range(size) if labels[n] != labels[a]]
        costs = [
            math.log(1 + sum(math.exp(scale * (reached[a, n] - reached[a, p] + margin)) for n in negatives))
            for p in positives
        ]
        values.append(loops.mean(costs) if negatives else 0.0)
    return values


of_arguments = pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"margin": 0.5},
        {"margin": 0.1, "scale": 50.0},
        {"restart": 0.3},
        {"affinity": "shifted", "restart": 0.5},
        {"neighbors": 2, "scale": 50.0},
    ],
    ids=["defaults", "margin", "scale", "restart", "shifted", "neighbors"],
)


@of_each_view
@of_arguments
@of_batches("size, classes, dim", [(1, 2, 2), (7, 3, 3), (13, 20, 8), (40, 5, 2)], (1e-5, 1e-10))
@pytest.mark.few_by_day(16)
def test_on_proxies(make_batch, view, size, classes, dim, dtype, tolerance, arguments):
    for normalised in (True, False):
        loss = LOSSES[view](classes=classes, reduction=None, dtype=dtype, **arguments)
        labels, embeddings = make_batch(size, classes, dim, dtype=dtype, normalised=normalised)
        layer = loss.make_layer()
        layer.build((None, dim))
        layer.proxies.assign(np.random.default_rng(0).normal(size=(classes, dim)))
        values = loss(labels, layer(embeddings, labels))
        assert values.dtype == dtype
        expected = on_proxies(view, labels, embeddings, layer.proxies.numpy(), **arguments)
        np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)
        # Similarities are small: only float64 tells them for sure from none at all.
        flat = math.log(1 + (classes - 1) * math.exp(arguments.get("scale", 1) * arguments.get("margin", 5e-4)))
        assert dtype == "float32" or np.abs(np.array(expected) - flat).max() > 1e-7


@of_arguments
@of_batches("size, classes, dim", [(2, 2, 2), (7, 2, 3), (13, 5, 8), (20, 3, 2), (6, 1, 4), (9, 99, 3)], (1e-5, 1e-10))
@pytest.mark.few_by_day(12)
def test_of_a_batch(make_batch, size, classes, dim, dtype, tolerance, arguments):
    for normalised in (True, False):
        labels, embeddings = make_batch(size, classes, dim, dtype=dtype, normalised=normalised)
        values = ManifoldNPair(**arguments).call(labels, embeddings)
        assert values.dtype == dtype
        np.testing.assert_allclose(values, n_pair(labels, embeddings, **arguments), rtol=tolerance, atol=tolerance)

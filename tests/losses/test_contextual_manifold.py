import math

import numpy as np
import pytest

from tfdml.losses import ContextualManifold, contextual_manifold_loss


def walked(embeddings, proxies, restart, affinity):
    """Equation (9) of EDMS with an inverse, in float64; the proxies' columns."""
    nodes = np.concatenate([embeddings, proxies]).astype(np.float64)
    nodes /= np.linalg.norm(nodes, axis=1, keepdims=True)
    cosines = nodes @ nodes.T
    weights = np.maximum(cosines, 0) if affinity == "clipped" else (1 + cosines) / 2
    degrees = weights.sum(axis=1)
    steps = weights / np.sqrt(np.outer(degrees, degrees))
    np.fill_diagonal(steps, 0)
    return ((1 - restart) * np.linalg.inv(np.eye(len(nodes)) - restart * steps))[:, len(embeddings) :]


def naive(labels, embeddings, proxies, margin=5e-4, restart=0.8, affinity="clipped"):
    """Equation (12) of EDMS, image by image and proxy by proxy."""
    reached = walked(embeddings, proxies, restart, affinity)
    of_proxies = reached[len(embeddings) :]
    values = []
    for n, label in enumerate(labels):
        total = 1.0
        for j in range(len(proxies)):
            if j != label:
                alike, own = (sum(reached[n, i] * of_proxies[i, k] for i in range(len(proxies))) for k in (j, label))
                total += math.exp(alike - own + margin)
        values.append(math.log(total))
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


@pytest.mark.parametrize(
    "arguments",
    [{}, {"margin": 0.5}, {"restart": 0.3}, {"affinity": "shifted", "restart": 0.5}],
    ids=["defaults", "margin", "restart", "shifted"],
)
@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-5), ("float64", 1e-10)])
@pytest.mark.parametrize("size, classes, dim", [(1, 2, 2), (7, 3, 3), (13, 20, 8), (40, 5, 2)])
def test_equal_to_a_loop_over_proxies(size, classes, dim, dtype, tolerance, arguments):
    for normalised in (True, False):
        loss = ContextualManifold(classes=classes, reduction=None, dtype=dtype, **arguments)
        labels, embeddings, layer = given(loss, size, classes, dim, dtype, normalised)
        values = loss(labels, layer(embeddings, labels))
        assert values.dtype == dtype
        expected = naive(labels, embeddings, layer.proxies.numpy(), **arguments)
        np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)
        # Similarities are small: only float64 tells them for sure from none at all.
        flat = math.log(1 + (classes - 1) * math.exp(arguments.get("margin", 5e-4)))
        assert dtype == "float32" or np.abs(np.array(expected) - flat).max() > 1e-7


def test_by_hand():
    values = contextual_manifold_loss([1, 0], np.array([[0.2, 0.5], [0.9, 0.9]]), margin=0.3)
    np.testing.assert_allclose(values, [math.log(2), math.log(1 + math.exp(0.3))])


def test_a_class_passes_its_arguments_on_and_has_the_defaults_of_the_function(make_similarities):
    labels, similarities = make_similarities()
    for arguments in ({}, {"margin": 0.7}):
        values = ContextualManifold(reduction=None, **arguments)(labels, similarities)
        np.testing.assert_allclose(values, contextual_manifold_loss(labels, similarities, **arguments), rtol=1e-6)
    assert ContextualManifold().margin == 5e-4 and ContextualManifold().restart == 0.8
    layer = ContextualManifold(classes=9, restart=0.4, affinity="shifted").make_layer()
    assert (layer.classes, layer.view, layer.restart, layer.affinity) == (9, "contextual", 0.4, "shifted")


def test_bad_arguments_are_told():
    with pytest.raises(ValueError, match="restart to be a number above 0 and below 1; received 1.5"):
        ContextualManifold(restart=1.5)
    with pytest.raises(ValueError, match="affinity to be one of 'clipped', 'shifted'; received 'none'"):
        ContextualManifold(affinity="none")

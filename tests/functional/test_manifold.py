import itertools
import math

import numpy as np
import pytest
import tensorflow as tf

from tests.of_batches import of_batches
from tfdml.functional.manifold import manifold_similarities, random_walk


def graph(embeddings, affinity, neighbors=None):
    """The matrix of section 5 of EDMS that steps are made with, entry by entry, in float64."""
    nodes = [row / (math.sqrt(sum(row * row)) or 1.0) for row in np.asarray(embeddings, np.float64)]
    change = {"clipped": lambda cosine: max(0.0, cosine), "shifted": lambda cosine: (1 + cosine) / 2}[affinity]
    weights = [[change(sum(one * other)) for other in nodes] for one in nodes]
    size = len(nodes)
    if neighbors:
        nearest = [sorted({*range(size)} - {i}, key=lambda j: -row[j])[:neighbors] for i, row in enumerate(weights)]
        for i, j in itertools.permutations(range(size), 2):
            if j not in nearest[i] and i not in nearest[j]:
                weights[i][j] = 0.0
    degrees = [sum(row) for row in weights]
    steps = np.zeros((size, size))
    for i in range(size):
        for j in range(size):
            if i != j and degrees[i] > 0 and degrees[j] > 0:
                steps[i, j] = weights[i][j] / math.sqrt(degrees[i] * degrees[j])
    return steps


def walked(embeddings, restart, affinity, neighbors=None):
    """A walk that goes on with probability α, step by step, from every node: the series that equation (9) sums."""
    steps = graph(embeddings, affinity, neighbors)
    reached, here = np.zeros_like(steps), np.eye(len(steps))
    weight = 1 - restart
    while weight > 1e-18:
        reached += weight * here
        here, weight = steps @ here, weight * restart
    return reached


def naive(embeddings, proxies, *about):
    """What a walk from the embeddings, and from the proxies, reaches of the proxies."""
    reached = walked(np.concatenate([embeddings, proxies]), *about)[:, len(embeddings) :]
    return reached[: len(embeddings)], reached[len(embeddings) :]


def nodes(size, classes, dim, seed=0, dtype="float64", normalised=False):
    rng = np.random.default_rng([seed, size, classes, dim])
    rows, proxies = rng.normal(size=(size, dim)), rng.normal(size=(classes, dim))
    if normalised:
        rows, proxies = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (rows, proxies))
    return rows.astype(dtype), proxies.astype(dtype)


@pytest.mark.parametrize("affinity", ["clipped", "shifted"])
@pytest.mark.parametrize("restart", [0.1, 0.8, 0.98])
@of_batches("size, classes, dim", [(1, 1, 2), (6, 3, 2), (9, 5, 8), (40, 12, 16)])
def test_equal_to_a_walk_step_by_step(size, classes, dim, dtype, tolerance, restart, affinity):
    for normalised in (True, False):
        rows, proxies = nodes(size, classes, dim, dtype=dtype, normalised=normalised)
        got = random_walk(tf.constant(rows), tf.constant(proxies), restart=restart, affinity=affinity)
        for values, expected in zip(got, naive(rows, proxies, restart, affinity), strict=True):
            assert values.dtype == dtype
            np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


def awkward(kind):
    """Batches whose dot products have rows that sum to 0 or less, so that the paper's text gives no number."""
    rows, proxies = nodes(6, 3, 4, dtype="float32")
    if kind == "opposite":
        rows = np.concatenate([rows[:3], -rows[:3]])
        proxies = -rows[:3]
    elif kind == "one against all":
        rows = np.ones((6, 4), np.float32)
        proxies = np.float32([[1, 1, 1, 1], [-1, -1, -1, -1], [1, -1, 1, -1]])
    elif kind == "equal":
        rows, proxies = np.ones((6, 4), np.float32), np.ones((3, 4), np.float32)
    elif kind == "orthogonal":
        rows, proxies = np.eye(6, 9, dtype=np.float32), np.eye(3, 9, 6, dtype=np.float32)
    elif kind == "zeros":
        rows, proxies = np.zeros_like(rows), np.zeros_like(proxies)
    elif kind == "some zeros":
        rows[2], proxies[1] = 0, 0
    return rows, proxies


AWKWARD = ["opposite", "one against all", "equal", "orthogonal", "zeros", "some zeros"]


@pytest.mark.parametrize("affinity", ["clipped", "shifted"])
@pytest.mark.parametrize("kind", AWKWARD)
@pytest.mark.parametrize("restart", [0.8, 0.999])
@pytest.mark.few_by_day(8)
def test_negative_and_missing_degrees_are_no_trouble(kind, affinity, restart):
    rows, proxies = awkward(kind)
    if kind in ("opposite", "one against all"):
        together = np.concatenate([rows, proxies])
        assert (together @ together.T).sum(axis=1).min() < 1e-5
    variables = tf.Variable(rows), tf.Variable(proxies)
    for view in ("intrinsic", "contextual"):
        with tf.GradientTape() as tape:
            values = manifold_similarities(*variables, view=view, restart=restart, affinity=affinity)
            total = tf.reduce_sum(tf.square(values))
        assert np.all(np.isfinite(values)) and np.all(values >= 0)
        for gradient in tape.gradient(total, variables):
            assert np.all(np.isfinite(gradient)) and np.abs(gradient).max() < 1e3
    got = random_walk(*variables, restart=restart, affinity=affinity)
    for values, expected in zip(got, naive(rows, proxies, restart, affinity), strict=True):
        np.testing.assert_allclose(values, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("affinity", ["clipped", "shifted"])
@pytest.mark.parametrize("restart", [0.3, 0.8, 0.99])
def test_the_system_is_well_conditioned(restart, affinity):
    # With all nodes as proxies but one, what is returned is nearly all of F, whose eigenvalues are those of
    # (1 - α) / (1 - α s) for s from -1 to 1.
    batches = [awkward(kind) for kind in AWKWARD] + [nodes(1, 30, dim, seed=dim) for dim in (2, 3, 20)]
    for rows, proxies in batches:
        together = np.concatenate([rows, proxies]).astype(np.float64)
        _, reached = random_walk(
            tf.constant(together[:1]), tf.constant(together[1:]), restart=restart, affinity=affinity
        )
        np.testing.assert_allclose(reached, np.transpose(reached), atol=1e-12)
        eigenvalues = np.linalg.eigvalsh(reached)
        assert eigenvalues.min() > (1 - restart) / (1 + restart) - 1e-12 and eigenvalues.max() < 1 + 1e-12


@pytest.mark.parametrize("neighbors", [1, 3, 20])
@pytest.mark.parametrize("affinity", ["clipped", "shifted"])
def test_walks_between_neighbors_alone(neighbors, affinity):
    """Of 9 nodes, so that 20 neighbors are all."""
    rows, proxies = nodes(6, 3, 4)
    found = random_walk(tf.constant(rows), tf.constant(proxies), affinity=affinity, neighbors=neighbors)
    for values, expected in zip(found, naive(rows, proxies, 0.8, affinity, neighbors), strict=True):
        np.testing.assert_allclose(values, expected, atol=1e-12)
    everywhere, _ = random_walk(tf.constant(rows), tf.constant(proxies), affinity=affinity)
    assert np.allclose(found[0], everywhere) == (neighbors == 20)


@pytest.mark.parametrize("affinity", ["clipped", "shifted"])
@pytest.mark.parametrize("view", ["intrinsic", "contextual"])
def test_gradients_agree_with_differences(view, affinity):
    weights = np.random.default_rng(1).normal(size=(5, 3))

    def value(rows, proxies):
        return tf.reduce_sum(weights * manifold_similarities(rows, proxies, view=view, affinity=affinity))

    given = nodes(5, 3, 4)
    variables = [tf.Variable(each) for each in given]
    with tf.GradientTape() as tape:
        total = value(*variables)
    for number, gradient in enumerate(np.array(each) for each in tape.gradient(total, variables)):
        assert np.abs(gradient).max() > 1e-3
        for place in np.ndindex(gradient.shape):
            ends = []
            for sign in (1, -1):
                moved = [np.array(each) for each in given]
                moved[number][place] += sign * 1e-5
                ends.append(float(value(*moved)))
            assert gradient[place] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-7)


@pytest.mark.usefixtures("improved_graphs")
def test_the_number_of_classes_is_known_before_the_batch_is():
    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32)])
    def compiled(rows):
        of_rows, of_proxies = random_walk(rows, tf.constant(proxies))
        assert of_rows.shape[1] == 3 and of_proxies.shape[1] == 3
        return of_rows

    for size in (1, 7):
        rows, proxies = nodes(size, 3, 4, dtype="float32")
        proxies = nodes(7, 3, 4, dtype="float32")[1]
        np.testing.assert_allclose(compiled(rows), random_walk(rows, proxies)[0], rtol=1e-5)


def test_what_is_no_number_stays_none():
    rows, proxies = nodes(4, 3, 2)
    rows[1, 0] = np.nan
    assert np.all(np.isnan(manifold_similarities(tf.constant(rows), tf.constant(proxies))))

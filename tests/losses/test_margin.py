import numpy as np
import pytest
import tensorflow as tf

from tests.losses.loops import assert_is_gradient, distance, value_and_gradient
from tests.of_batches import of_batches
from tfdml.layers import ClassMargins
from tfdml.losses import Margin

MININGS = ["distance_weighted", "nearest", "all"]


def pairwise(embeddings):
    rows = np.asarray(embeddings, np.float64).tolist()
    return [[distance(x, y) for y in rows] for x in rows]


def triplets(labels, shares):
    """`(anchor, positive, negative, how often)`; `shares` gives an anchor's negatives' shares, or None for all."""
    for anchor, label in enumerate(labels):
        positives = [j for j, other in enumerate(labels) if j != anchor and other == label]
        negatives = [j for j, other in enumerate(labels) if other != label]
        times = [1.0] * len(negatives) if shares is None else shares(anchor, negatives, positives) if negatives else []
        for positive in positives:
            yield from ((anchor, positive, negative, time) for negative, time in zip(negatives, times, strict=True))


def naive(labels, embeddings, shares, beta=1.2, margin=0.2, nu=0.0, queries=None):
    """Every triplet in a loop: a sum of costs over a sum of costly pairs, as in the authors' code."""
    size, distances = queries or len(labels), pairwise(embeddings)
    beta = np.broadcast_to(beta, size)
    of_anchors = (each for each in triplets(labels, shares) if each[0] < size)
    costs, active = [0.0] * size, 0.0
    for anchor, positive, negative, times in of_anchors:
        pull = max(0.0, margin + (distances[anchor][positive] - beta[anchor]))
        push = max(0.0, margin - (distances[anchor][negative] - beta[anchor]))
        costs[anchor] += times * (pull + push + nu * beta[anchor])
        active += times * (int(pull > 0) + int(push > 0))
    return [size * cost / max(active, 1.0) if active else 0.0 for cost in costs]


def of_boundaries(labels, embeddings, beta, **arguments):
    """The values `[B]` where the layer puts each anchor's boundary behind its embedding."""
    beta = tf.broadcast_to(tf.convert_to_tensor(beta, embeddings.dtype), [len(labels)])
    rows = tf.concat([embeddings, beta[:, None]], axis=1)[:, None]
    return Margin(learn_beta="one", **arguments).call(labels, rows)


@pytest.fixture
def shares_of(negative_shares):
    """Function that makes `shares` for `naive` of embeddings and a mining."""

    def make(embeddings, mining, **limits):
        if mining == "all":
            return None
        distances, dim = pairwise(embeddings), np.shape(embeddings)[1]

        def weighted(anchor, negatives, positives):
            return negative_shares([distances[anchor][j] for j in negatives], dim, **limits)

        def nearest(anchor, negatives, positives):
            """The n-th positive goes with the n-th negative; which is whose does not matter to sums over pairs."""
            far = [j for j in negatives if distances[anchor][j] >= limits.get("cutoff", 0.5)]
            chosen = sorted(far, key=lambda j: distances[anchor][j])[: len(positives)]
            return [float(j in chosen) / max(len(positives), 1) for j in negatives]

        return nearest if mining == "nearest" else weighted

    return make


@pytest.mark.slow
@pytest.mark.parametrize("mining", MININGS)
@pytest.mark.parametrize("beta, margin, nu", [(1.2, 0.2, 0.0), (0.7, 0.1, 0.0), (1.5, 0.4, 0.3)])
@of_batches("size, classes, dim", [(2, 2, 2), (7, 2, 3), (13, 5, 8), (20, 3, 2), (5, 1, 3)])
@pytest.mark.few_by_day(15)
def test_equal_to_a_loop_over_triplets(
    make_batch, shares_of, size, classes, dim, dtype, tolerance, beta, margin, nu, mining
):
    for normalised in (True, False):
        labels, embeddings = make_batch(size, classes, dim, dtype=dtype, normalised=normalised)
        values = of_boundaries(labels, embeddings, beta, margin=margin, nu=nu, mining=mining)
        assert values.dtype == dtype
        expected = naive(labels, embeddings, shares_of(embeddings, mining), beta, margin, nu)
        np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("mining", MININGS)
def test_of_some_anchors_only_their_triplets_count(make_batch, shares_of, mining):
    labels, embeddings = make_batch(13, 4, dtype="float64")
    values = Margin(mining=mining).call(labels, embeddings, 8)
    expected = naive(labels, embeddings, shares_of(embeddings, mining), queries=8)
    np.testing.assert_allclose(values, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("limits", [{"cutoff": 1.0}, {"nonzero_loss_cutoff": 1.2}, {"nonzero_loss_cutoff": None}])
def test_cutoffs(make_batch, shares_of, limits):
    labels, embeddings = make_batch(14, dtype="float64")
    values = Margin(**limits).call(labels, embeddings)
    expected = naive(labels, embeddings, shares_of(embeddings, "distance_weighted", **limits))
    np.testing.assert_allclose(values, expected, rtol=1e-10)
    assert not np.allclose(values, Margin().call(labels, embeddings))


def test_nearest_by_hand():
    # On a line: the anchor at 0 has two positives, and negatives at 0.4, 0.5, 0.9 and 1.5; 0.4 is too near.
    places = np.array([[0.0], [0.1], [-0.2], [0.4], [-0.5], [0.9], [1.5]])
    values = Margin(beta=0.1, margin=5.0, mining="nearest", cutoff=0.5).call([0, 0, 0, 1, 2, 3, 4], places)
    # Anchors 0, 1 and 2 have two positives and two negatives each, all of which cost something.
    pulls, pushes = 2 * 4.9 + (0.1 + 0.2), 2 * 5.1 - (0.5 + 0.9)
    np.testing.assert_allclose(values[0], 7 / 12 * (pulls + pushes), rtol=1e-6)
    np.testing.assert_array_equal(values[3:], np.zeros(4))


@pytest.mark.parametrize("mining", MININGS)
def test_a_boundary_of_each_anchor(make_batch, shares_of, mining):
    labels, embeddings = make_batch(12, dtype="float64")
    beta = np.array([1.1, 1.3, 0.9, 1.4])[labels]
    values = of_boundaries(labels, embeddings, beta, nu=0.1, mining=mining)
    expected = naive(labels, embeddings, shares_of(embeddings, mining), beta, nu=0.1)
    np.testing.assert_allclose(values, expected, rtol=1e-10)


def test_draws_average_to_the_value(make_batch, negative_shares):
    labels, embeddings = make_batch(16, 4, dtype="float64")
    distances, random = np.array(pairwise(embeddings)), np.random.default_rng(0)
    sums, counts = np.zeros(4000), np.zeros(4000)
    for anchor, label in enumerate(labels):
        negatives = np.flatnonzero(labels != label)
        shares = negative_shares(distances[anchor, negatives].tolist(), 5)
        for positive in np.flatnonzero(labels == label):
            if positive != anchor:
                drawn = random.choice(negatives, 4000, p=shares)
                pull = max(0.0, 0.2 + distances[anchor, positive] - 1.2)
                push = np.maximum(0.0, 0.2 - distances[anchor, drawn] + 1.2)
                sums += pull + push
                counts += int(pull > 0) + (push > 0).astype(int)
    losses = sums / counts
    error = losses.std() / 4000**0.5
    assert 0 < error < 0.002
    assert np.mean(losses) == pytest.approx(np.mean(Margin().call(labels, embeddings)), abs=4 * error)


@pytest.mark.parametrize("mining", MININGS)
def test_gradient_is_that_of_the_loop_with_constant_draws(make_batch, shares_of, mining):
    labels, embeddings = make_batch(8, 3, seed=5, dtype="float64")
    _, gradient = value_and_gradient(Margin(mining=mining), labels, embeddings)
    shares = shares_of(embeddings, mining)
    assert np.abs(gradient).max() > 1e-2
    assert_is_gradient(gradient, lambda rows: naive(labels, rows, shares), embeddings)


def test_fewer_than_one_costly_pair_weigh_no_more_than_one(negative_shares):
    # On a circle: a class in one place, one class near it, others far; only the near one costs something.
    ends = [0.65, -1.3, 1.3, -1.35, 1.35]
    angles = np.array([0, 0, *(2 * np.sign(end) * np.arcsin(abs(end) / 2) for end in ends)])
    embeddings = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    share = negative_shares([abs(end) for end in ends], 2)[0]
    assert 0.1 < share < 0.4
    values = Margin(beta=0.6, margin=0.1).call([0, 0, 1, 2, 3, 4, 5], embeddings)
    np.testing.assert_allclose(values, [7 * share * 0.05, 7 * share * 0.05, 0, 0, 0, 0, 0], rtol=1e-6)


@pytest.mark.parametrize("nu", [0.0, 0.5])
@pytest.mark.parametrize("mining", MININGS)
@pytest.mark.parametrize("labels", [[1, 1, 1, 1], [0, 1, 2, 3], [0, 0, 1, 1]], ids=["one", "all different", "apart"])
def test_without_a_costly_pair_it_is_zero_with_zero_gradient(labels, mining, nu):
    variable = tf.Variable(np.eye(2)[[0, 0, 1, 1]] if labels[0] != labels[-1] else np.eye(4))
    with tf.GradientTape() as tape:
        values = of_boundaries(np.array(labels), variable, 1.2, margin=0.1, nu=nu, mining=mining)
    np.testing.assert_array_equal(values, np.zeros(4))
    np.testing.assert_array_equal(tf.convert_to_tensor(tape.gradient(values, variable)), np.zeros_like(variable))


def test_nu_counts_only_where_the_boundary_is_learned(make_batch):
    labels, embeddings = make_batch()
    assert Margin(nu=3.0)(labels, embeddings) == Margin()(labels, embeddings)
    learned, fixed = of_boundaries(labels, embeddings, 1.2, nu=3.0).numpy(), Margin().call(labels, embeddings).numpy()
    assert np.all(learned >= fixed) and np.any(learned > fixed)


def test_layers_of_boundaries():
    assert Margin().make_layer() is None and Margin(classes=5).make_layer() is None
    one, each = (Margin(beta=0.9, learn_beta=which, classes=5).make_layer() for which in ("one", "per_class"))
    assert isinstance(one, ClassMargins) and (one.classes, one.beta) == (1, 0.9)
    assert isinstance(each, ClassMargins) and (each.classes, each.beta) == (5, 0.9)
    with pytest.raises(ValueError, match="learn_beta='per_class', classes="):
        Margin(learn_beta="per_class").make_layer()


@pytest.mark.parametrize("learn_beta", ["one", "per_class"])
def test_boundaries_get_the_gradient_of_the_loss(make_batch, learn_beta):
    labels, embeddings = make_batch(16, 4)
    loss = Margin(learn_beta=learn_beta, classes=4, nu=0.2)
    layer = loss.make_layer()
    layer.build((None, 5))
    with tf.GradientTape() as tape:
        value = loss(labels, layer(embeddings, labels))
    beta = tf.Variable([1.2] * layer.classes)
    with tf.GradientTape() as expected:
        of_anchors = tf.gather(beta, labels if learn_beta == "per_class" else 0 * labels)
        mean = tf.reduce_mean(of_boundaries(labels, embeddings, of_anchors, nu=0.2))
    np.testing.assert_allclose(value, mean, rtol=1e-6)
    gradient = tf.convert_to_tensor(tape.gradient(value, layer.margins.value))
    np.testing.assert_allclose(gradient, tf.convert_to_tensor(expected.gradient(mean, beta)), rtol=1e-5)
    assert np.abs(gradient).max() > 1e-3


def test_a_label_without_a_boundary_is_named(make_batch, make_feed):
    labels, embeddings = make_batch(6, 3)
    labels[4] = 3
    for learn_beta, classes in (("no", None), ("one", None), ("per_class", 4)):
        loss = Margin(learn_beta=learn_beta, classes=classes)
        assert np.isfinite(loss(labels, make_feed(loss)(labels, embeddings)))
    loss = Margin(learn_beta="per_class", classes=3)
    taken = make_feed(loss)(labels, embeddings)
    with pytest.raises(ValueError, match="Margin was created for 3 classes, .* from 0 to 2. Received: 3 at position 4"):
        loss(labels, taken)
    # Nothing can be raised there.
    assert np.isnan(tf.function(loss)(tf.constant(labels), taken))

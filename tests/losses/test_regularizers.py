"""Regularizers equal loops over rows, and as terms of a sum they change the proxies of its other losses."""

import itertools
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.losses.loops import assert_is_gradient, cosine, distance, value_and_gradient
from tests.methods.models import small_model
from tests.of_batches import of_batches
from tfdml import losses, registry


def units(rows):
    return [row / math.sqrt(sum(x * x for x in row)) for row in np.asarray(rows, np.float64)]


def lp_norm(rows, p=2.0, power=1.0):
    return [sum(abs(x) ** p for x in row) ** (power / p) for row in np.asarray(rows, np.float64)]


def zero_mean(rows):
    return [abs(sum(row)) for row in np.asarray(rows, np.float64)]


def center_invariance(rows):
    squared = [sum(x * x for x in row) for row in np.asarray(rows, np.float64)]
    return [(each - sum(squared) / len(squared)) ** 2 / 4 for each in squared]


def regular_face(rows, per_class=1):
    values = []
    for i, row in enumerate(rows):
        others = [cosine(row, other) for j, other in enumerate(rows) if i // per_class != j // per_class]
        values.append(max(others, default=0.0))
    return values


def sparse_centers(rows, per_class):
    rows, count = units(rows), len(rows)
    pairs = [(i, j) for i, j in itertools.combinations(range(count), 2) if i // per_class == j // per_class]
    return sum(distance(rows[i], rows[j]) for i, j in pairs) / (count * (per_class - 1))


def anti_collapse(rows, epsilon=0.5):
    """By the eigenvalues of the Gram matrix."""
    gram = np.array([[cosine(x, y) for y in rows] for x in np.asarray(rows, np.float64)])
    factor = rows.shape[1] / (len(rows) * epsilon**2)
    return -sum(math.log(1 + factor * max(value, 0.0)) for value in np.linalg.eigvalsh(gram)) / 2


def uniformity(rows, t=2.0):
    potentials = [math.exp(-t * distance(x, y) ** 2) for x, y in itertools.combinations(units(rows), 2)]
    return math.log(sum(potentials) / len(potentials)) if potentials else 0.0


def decorrelation(rows):
    columns = np.array(units(rows)).T
    columns = [column - sum(column) / len(column) for column in columns]
    covariances = [sum(a * b) / len(rows) for a, b in itertools.permutations(columns, 2)]
    return sum(each**2 for each in covariances) / 2


LOOPS = [
    (losses.AntiCollapse, anti_collapse, [{}, {"epsilon": 0.1}, {"epsilon": 2.0}]),
    (losses.CenterInvariance, center_invariance, [{}]),
    (losses.Decorrelation, decorrelation, [{}]),
    (losses.LpNorm, lp_norm, [{}, {"p": 1.0}, {"p": 4.0}, {"power": 2.0}, {"p": 3.0, "power": 0.5}]),
    (losses.RegularFace, regular_face, [{}]),
    (losses.Uniformity, uniformity, [{}, {"t": 0.5}, {"t": 8.0}]),
    (losses.ZeroMean, zero_mean, [{}]),
]
CASES = [(make, loop, arguments) for make, loop, several in LOOPS for arguments in several]
of_loops = pytest.mark.parametrize(
    "make, loop, arguments", CASES, ids=lambda case: getattr(case, "__name__", str(case))
)


@of_loops
@of_batches("size, classes, dim", [(1, 1, 3), (2, 2, 2), (7, 2, 3), (13, 5, 8), (9, 3, 20)])
def test_as_loops(make_batch, size, classes, dim, dtype, tolerance, make, loop, arguments):
    for normalised in (True, False):
        labels, rows = make_batch(size, classes, dim, dtype=dtype, normalised=normalised)
        values = make(of="embeddings", **arguments).call(labels, rows)
        assert values.dtype == dtype and values.shape == (size,)
        np.testing.assert_allclose(values, np.broadcast_to(loop(rows, **arguments), size), tolerance, tolerance)


@of_loops
def test_gradient_of_every_entry(make_batch, make, loop, arguments):
    labels, rows = make_batch(6, 3, 4, dtype="float64", normalised=False)
    _, gradient = value_and_gradient(make(of="embeddings", **arguments), labels, rows)
    assert_is_gradient(gradient, lambda each: np.broadcast_to(loop(each, **arguments), 6), rows)


@pytest.mark.parametrize("p", [1.0, 2.0, 5.0])
def test_norms_of_extreme_rows_are_exact_with_finite_gradients(p):
    rows = np.float32([[0.0, 0.0], [1e-30, 1e-30], [1e30, 0.0]])
    values, gradient = value_and_gradient(losses.LpNorm(p=p), [0, 1, 2], rows)
    np.testing.assert_allclose(values, [0.0, 2 ** (1 / p) * 1e-30, 1e30], rtol=1e-5)
    assert np.all(np.isfinite(gradient)) and not np.any(gradient[0]) and np.all(gradient[1] > 0.1)


def test_labels_change_nothing_and_one_row_is_enough(regularizer_spec, make_batch):
    loss = registry.create("loss", regularizer_spec)
    labels, rows = make_batch(8)
    expected = loss.call(labels, rows)
    kinds = [np.zeros(8, int), np.arange(8), np.stack([labels // 2, labels], axis=1), np.eye(4, dtype=bool)[labels]]
    for kind in kinds:
        np.testing.assert_array_equal(loss.call(kind, rows), expected)
        np.testing.assert_allclose(loss(kind, rows), np.mean(expected), rtol=1e-6)
    values, gradient = value_and_gradient(loss, labels[:1], rows[:1])
    assert np.isfinite(values) and np.all(np.isfinite(gradient))


def test_past_embeddings_are_not_regularized(regularizer_spec, make_batch):
    loss = registry.create("loss", regularizer_spec)
    labels, rows = make_batch(8)
    assert loss.refuses_memory is None
    np.testing.assert_array_equal(loss.call(labels, rows, 5), loss.call(labels[:5], rows[:5]))


OF_PROXIES = [
    (losses.CenterInvariance, center_invariance),
    (losses.ZeroMean, zero_mean),
    (losses.Uniformity, uniformity),
]
OF_PROXIES += [(losses.AntiCollapse, anti_collapse), (losses.Decorrelation, decorrelation), (losses.LpNorm, lp_norm)]
OF_CENTERS = [(losses.RegularFace, regular_face), (losses.SparseCenters, sparse_centers)]


def summed_with(regularizer, per_class=1, weight=0.5):
    if per_class > 1:
        classifier = losses.SubCenterArcFace(classes=4, per_class=per_class)
    else:
        classifier = losses.NormSoftmax(classes=4)
    return losses.WeightedSum([(2.0, classifier), (weight, regularizer)]), classifier


@pytest.mark.parametrize(
    "make, loop, per_class",
    [*((make, loop, 1) for make, loop in OF_PROXIES), *((*each, 3) for each in OF_CENTERS), (*OF_CENTERS[0], 1)],
)
def test_it_regularizes_the_proxies_of_the_other_losses(make_batch, make_feed, make, loop, per_class):
    loss, classifier = summed_with(make(of="proxies"), per_class)
    labels, embeddings = make_batch(6, 4)
    layer = loss.make_layer()
    layer.build((None, 5))
    (proxies,) = layer.weights
    proxies.assign(np.random.default_rng(0).normal(size=proxies.shape))
    rows = proxies.numpy()
    expected = np.mean(loop(rows, per_class) if (make, loop) in OF_CENTERS else loop(rows))
    with tf.GradientTape() as tape:
        values = loss.call(labels, layer(embeddings, labels))
    alone = classifier.call(labels, layer.parts[0](embeddings, labels))
    np.testing.assert_allclose(values - 2.0 * alone, np.full(6, 0.5 * expected), rtol=1e-3, atol=1e-5)
    found = tape.gradient(values, proxies.value)
    with tf.GradientTape() as tape:
        values = classifier.call(labels, layer.parts[0](embeddings, labels))
    assert not np.allclose(found, 2.0 * tape.gradient(values, proxies.value), rtol=1e-3)


def test_two_losses_with_proxies_are_both_regularized(make_batch):
    terms = [(1.0, losses.NormSoftmax(classes=4)), (1.0, losses.ProxyNCA(classes=4)), (1.0, losses.CenterInvariance())]
    layer = losses.WeightedSum(terms).make_layer()
    layer.build((None, 5))
    labels, embeddings = make_batch(6, 4)
    expected = sum(np.mean(center_invariance(each.numpy())) for each in layer.weights)
    np.testing.assert_allclose(layer(embeddings, labels)[:, 0, -1], np.full(6, expected), rtol=1e-5)


def test_sparse_centers_are_the_merging_of_soft_triple():
    merged = losses.SoftTriple(classes=4, per_class=3, merging=0.2).make_layer()
    apart = losses.WeightedSum(
        [(1.0, losses.SoftTriple(classes=4, per_class=3, merging=0)), (0.2, losses.SparseCenters())]
    )
    layer = apart.make_layer()
    for each in (merged, layer):
        each.build((None, 5))
    layer.weights[0].assign(merged.proxies)
    value = 0.2 * layer(np.ones((2, 5), "float32"))[0, 0, -1]
    np.testing.assert_allclose(value, merged.proxies.regularizer(merged.proxies), rtol=1e-5)


def test_without_proxies_of_a_class_it_is_told():
    embeddings = np.ones((2, 5), "float32")
    for spec in ("regular_face", "triplet + regular_face", "proxy_n_pair(classes=4, proxies='images') + regular_face"):
        layer = registry.create("loss", spec).make_layer()
        with pytest.raises(ValueError, match="RegularFace regularizes the learned proxies .* and there are none"):
            layer(embeddings)
    with pytest.raises(ValueError, match="the classes have only one proxy. Set per_class"):
        registry.create("loss", "proxy_nca(classes=4) + sparse_centers").make_layer()(embeddings)
    with pytest.raises(ValueError, match="expects of to be one of 'proxies'. Received: of='embeddings'"):
        losses.SparseCenters(of="embeddings")
    assert "regularizes proxies" in losses.RegularFace().refuses_memory


@pytest.mark.nightly
def test_models_train_save_and_load_with_it(batch, tmp_path):
    images, labels = np.clip(batch[0], -2.0, 2.0), batch[1]
    spec = "norm_softmax(classes=4) + {}*regular_face + 0.1*uniformity"
    cosines = {}
    for weight in (0.0, 10.0):
        keras.utils.set_random_seed(0)
        model = small_model()
        model.compile(keras.optimizers.Adam(0.01), spec.format(weight), run_eagerly=True)
        model.fit(images, labels, batch_size=16, epochs=5, verbose=0)
        (proxies,) = model.loss_layers.variables
        cosines[weight] = np.mean(regular_face(proxies.numpy()))
    assert cosines[10.0] < cosines[0.0] - 0.1
    statistics = model.loss_statistics()
    assert statistics["regularization_of_loss_1"] == pytest.approx(cosines[10.0], abs=0.1)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert [each.shape for each in loaded.variables] == [each.shape for each in model.variables]
    np.testing.assert_array_equal(loaded.loss_layers.variables[0], proxies)
    value = model.evaluate(images, labels, batch_size=16, verbose=0)
    np.testing.assert_allclose(loaded.evaluate(images, labels, batch_size=16, verbose=0), value, rtol=1e-5)

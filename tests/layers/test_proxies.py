"""The layers with what a loss learns: proxies, alone or along the manifold or on several devices, and class margins."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdml import losses
from tfdml.functional.manifold import manifold_similarities
from tfdml.layers import CenterMerging, ClassMargins, ManifoldProxies, Proxies

LABELS = np.array([2, 0, 2, 4])


@pytest.fixture
def embeddings():
    return np.random.default_rng(0).normal(size=(4, 3)).astype("float32")


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


@pytest.mark.parametrize("per_class", [1, 2])
@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-5), ("float64", 1e-7)])
def test_cosines_to_the_proxies_of_each_class(embeddings, per_class, dtype, tolerance):
    layer = Proxies(5, per_class=per_class)
    similarities = layer(embeddings.astype(dtype))
    assert similarities.dtype == dtype
    assert similarities.shape == ((4, 5) if per_class == 1 else (4, 5, 2))
    for row in range(4):
        for group in range(5):
            proxies = layer.proxies.numpy()[group * per_class : (group + 1) * per_class].astype("float64")
            expected = unit(proxies) @ unit(embeddings[row].astype("float64"))
            np.testing.assert_allclose(np.ravel(similarities[row, group]), expected, rtol=tolerance, atol=tolerance)


def test_labels_change_nothing(embeddings):
    layer = Proxies(5)
    np.testing.assert_array_equal(layer(embeddings, np.arange(4)), layer(embeddings))


def test_proxies_begin_in_different_directions_the_same_for_a_seed():
    layers = [Proxies(50, initializer=keras.initializers.RandomNormal(seed=seed)) for seed in (0, 0, 1)]
    for layer in layers:
        layer.build((None, 8))
    first, same, other = (unit(layer.proxies.numpy()) for layer in layers)
    assert np.max(first @ first.T - 2 * np.eye(50)) < 0.99
    np.testing.assert_array_equal(first, same)
    assert not np.allclose(first, other)


@pytest.mark.parametrize("per_class", [1, 2])
def test_gradients_go_to_the_classes_that_count(embeddings, per_class):
    layer = Proxies(5, per_class=per_class)
    variable = tf.Variable(embeddings)
    with tf.GradientTape() as tape:
        value = tf.reduce_sum(tf.gather(layer(variable), [1, 3], axis=1))
    of_embeddings, of_proxies = tape.gradient(value, [variable, layer.proxies.value])
    counted = np.repeat([False, True, False, True, False], per_class)
    assert np.all(np.any(of_embeddings.numpy() != 0, axis=1))
    np.testing.assert_array_equal(np.any(of_proxies.numpy() != 0, axis=1), counted)
    # Lengths do not matter, so nothing pulls along a proxy.
    np.testing.assert_allclose(np.sum(of_proxies.numpy() * layer.proxies.numpy(), axis=1), 0, atol=1e-5)


@pytest.mark.usefixtures("improved_graphs")
@pytest.mark.parametrize("compiled", [False, True])
def test_rows_of_zeros_have_no_similarity_and_no_gradient(embeddings, compiled):
    layer = Proxies(5)
    layer.build((None, 3))
    layer.proxies.assign(tf.tensor_scatter_nd_update(layer.proxies.value, [[2]], [[0.0, 0.0, 0.0]]))
    embeddings[1] = 0

    @tf.function(jit_compile=compiled)
    def gradients(rows):
        with tf.GradientTape() as tape:
            tape.watch(rows)
            similarities = layer.call(rows)
            total = tf.reduce_sum(similarities)
        return similarities, tape.gradient(total, [rows, layer.proxies.value])

    similarities, (of_rows, of_proxies) = gradients(tf.constant(embeddings))
    assert not np.any(similarities[1]) and not np.any(similarities[:, 2])
    assert np.all(np.isfinite(of_rows)) and np.all(np.isfinite(of_proxies))
    assert not np.any(of_rows[1]) and not np.any(of_proxies[2]) and np.any(of_rows[0]) and np.any(of_proxies[0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "arguments",
    [{}, {"view": "contextual"}, {"restart": 0.3}, {"affinity": "shifted"}, {"neighbors": 2}],
    ids=["defaults", "contextual", "restart", "shifted", "neighbors"],
)
def test_similarities_are_those_along_the_manifold(embeddings, dtype, arguments):
    layer = ManifoldProxies(5, **arguments)
    similarities = layer(embeddings.astype(dtype), LABELS)
    assert similarities.dtype == dtype and similarities.shape == (4, 5)
    expected = manifold_similarities(
        tf.constant(embeddings, "float64"), tf.cast(layer.proxies.value, "float64"), **arguments
    )
    np.testing.assert_allclose(similarities, expected, rtol=1e-4 if dtype == "float32" else 1e-12)
    others = [{"view": "contextual"}, {"restart": 0.4}, {"affinity": "shifted"}, {"neighbors": 2}]
    for other in others:
        if not other.items() <= arguments.items():
            own = ManifoldProxies(5, **{**arguments, **other})
            own.build((None, 3))
            own.proxies.assign(layer.proxies)
            assert not np.allclose(own(embeddings), similarities, rtol=1e-2)


def test_proxies_can_be_given_and_held(embeddings):
    layer = ManifoldProxies(5)
    layer.build((None, 3))
    layer.trainable = False
    layer.proxies.assign(np.ones((5, 3)))
    assert layer.trainable_weights == [] and layer.non_trainable_weights == [layer.proxies]
    similarities = layer(embeddings)
    np.testing.assert_allclose(similarities, np.repeat(similarities[:, :1], 5, axis=1), rtol=1e-5)


def test_one_device_has_all_of_the_proxies_that_are_divided_among_devices(embeddings):
    """tests/test_sharded_run.py has several."""
    loss, plain = losses.ArcFace(classes=5, sharded=True), losses.ArcFace(classes=5)
    layers = []
    for each in (loss, plain):
        keras.utils.set_random_seed(0)
        layers.append(each.make_layer())
    taken, expected = (layer(embeddings, LABELS) for layer in layers)
    np.testing.assert_array_equal(taken, expected)
    assert float(loss(LABELS, taken)) == float(plain(LABELS, expected))


def test_one_class_is_not_divided():
    assert type(losses.NormSoftmax(classes=1, sharded=True).make_layer()) is Proxies


@pytest.fixture
def layer():
    """A layer of five classes that are told apart."""
    layer = ClassMargins(5)
    layer.build((None, 3))
    layer.margins.assign([0.1, 0.2, 0.3, 0.4, 0.5])
    return layer


def test_the_margin_of_each_rows_class_stands_behind_its_embedding(layer, embeddings):
    for labels in (LABELS, LABELS[:, None], LABELS.astype("float32"), LABELS.astype("uint8")):
        outputs = layer(embeddings, labels)
        assert outputs.shape == (4, 1, 4) == layer.compute_output_shape((4, 3), labels.shape)
        outputs = outputs[:, 0]
        np.testing.assert_array_equal(outputs[:, :3], embeddings)
        np.testing.assert_array_equal(outputs[:, 3], np.array([0.3, 0.1, 0.3, 0.5], "float32"))


def test_one_margin_for_all_takes_any_label(embeddings):
    layer = ClassMargins(1, beta=0.7)
    outputs = layer(embeddings, np.array([-3, 0, 7, 2**40]))[:, 0]
    assert layer.margins.shape == (1,)
    np.testing.assert_array_equal(outputs[:, 3], np.full(4, 0.7, "float32"))


@pytest.mark.parametrize("label", [-1, 5, 2**24])
def test_a_label_out_of_range_gives_no_number_and_leaves_the_others(layer, embeddings, label):
    labels = LABELS.copy()
    labels[1] = label
    outputs = layer(embeddings, labels).numpy()[:, 0]
    assert np.isnan(outputs[1, 3]) and np.isnan(outputs).sum() == 1
    np.testing.assert_array_equal(outputs[[0, 2, 3]], layer(embeddings, LABELS).numpy()[[0, 2, 3], 0])


def test_gradients_go_to_the_classes_of_the_batch_and_to_the_embeddings(layer, embeddings):
    weights = np.arange(1.0, 17.0, dtype="float32").reshape(4, 4)
    variable = tf.Variable(embeddings)
    with tf.GradientTape() as tape:
        value = tf.reduce_sum(weights * layer(variable, LABELS)[:, 0])
    of_embeddings, of_margins = tape.gradient(value, [variable, layer.margins.value])
    np.testing.assert_array_equal(of_embeddings, weights[:, :3])
    np.testing.assert_array_equal(tf.convert_to_tensor(of_margins), [8, 0, 4 + 12, 0, 16])


def merging(centers, weight):
    """Every pair of centers of each class `[C, n, d]`, from the words of the paper."""
    classes, count, _ = centers.shape
    total = 0.0
    for own in centers.astype(np.float64):
        units = [center / math.sqrt(sum(center * center)) for center in own]
        for one in range(count):
            for other in range(one + 1, count):
                total += math.sqrt(max(0.0, 2 - 2 * sum(units[one] * units[other])))
    return weight * total / (classes * count * (count - 1))


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-5), ("float64", 1e-12)])
@pytest.mark.parametrize("classes, count, dim", [(1, 2, 2), (5, 3, 4), (7, 10, 16)])
@pytest.mark.parametrize("weight", [0.2, 3.0])
def test_equal_to_a_loop_over_pairs_of_centers(classes, count, dim, weight, dtype, tolerance):
    centers = np.random.default_rng(0).normal(size=(classes, count, dim)).astype(dtype)
    value = CenterMerging(count, weight)(tf.constant(centers.reshape(-1, dim)))
    assert value.dtype == dtype and value.shape == ()
    np.testing.assert_allclose(value, merging(centers, weight), rtol=tolerance)


def test_equal_centers_and_zeros_have_finite_gradients():
    for rows in ([[1.0, 1.0]] * 6, [[0.0, 0.0]] * 6, [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]] * 2):
        centers = tf.Variable(rows)
        with tf.GradientTape() as tape:
            value = CenterMerging(3)(centers)
        assert np.isfinite(value) and np.all(np.isfinite(tape.gradient(value, centers)))
    np.testing.assert_allclose(CenterMerging(3)(tf.ones((6, 2))), 0.0, atol=1e-3)


def test_a_layer_of_proxies_adds_it_once_a_step():
    layer = Proxies(4, per_class=3, regularizer=CenterMerging(3, 0.7))
    for _ in range(3):
        layer(np.ones((2, 5), np.float32))
    expected = merging(layer.proxies.numpy().reshape(4, 3, 5), 0.7)
    (value,) = layer.losses
    np.testing.assert_allclose(value, expected, rtol=1e-5)


@pytest.mark.parametrize(
    "use, message",
    [
        (lambda: ManifoldProxies(5, per_class=2), "per_class must be 1 .* Received: per_class=2"),
        (lambda: losses.CosFace(classes=9, sharded=True, sampled_classes=4), "sampled_classes cannot be combined"),
        (lambda: losses.CosFace(sharded=True).make_layer(), "CosFace needs the number of training classes"),
    ],
)
def test_what_cannot_be_is_told(use, message):
    with pytest.raises(ValueError, match=message):
        use()


@pytest.mark.parametrize("argument", [{"sharded": True}, {"sampled_classes": 4}])
def test_losses_that_are_no_softmax_have_all_proxies_everywhere(argument):
    with pytest.raises(TypeError, match=f"ProxyAnchor has no argument '{next(iter(argument))}'"):
        losses.ProxyAnchor(**argument)

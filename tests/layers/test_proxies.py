import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdml.layers import Proxies


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


def test_lengths_change_nothing(embeddings):
    layer = Proxies(5)
    before = layer(embeddings).numpy()
    layer.proxies.assign(7.0 * layer.proxies)
    np.testing.assert_allclose(layer(0.1 * embeddings), before, rtol=1e-5, atol=1e-6)


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


@pytest.mark.parametrize("half", ["bfloat16", "float16"])
def test_half_precision_is_computed_in_float32(embeddings, half):
    layer = Proxies(5)
    rounded = tf.cast(embeddings, half)
    assert layer(rounded).dtype == "float32"
    np.testing.assert_array_equal(layer(rounded), layer(tf.cast(rounded, "float32")))


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16", "bfloat16"])
def test_a_policy_of_half_precision_keeps_float32(embeddings, policy):
    for layer in (Proxies(5, dtype=policy), _under_policy(policy)):
        similarities = layer(embeddings)
        assert layer.proxies.dtype == similarities.dtype == "float32"
        expected = unit(embeddings) @ unit(layer.proxies.numpy()).T
        np.testing.assert_allclose(similarities, expected, rtol=1e-5, atol=1e-6)


def _under_policy(policy):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        return Proxies(5)
    finally:
        keras.config.set_dtype_policy(before)


def test_config_survives_json():
    own = Proxies(7, per_class=3, initializer=keras.initializers.RandomUniform(-2.0, 2.0, seed=4), name="own")
    written = json.loads(json.dumps(keras.saving.serialize_keras_object(own)))
    read = keras.saving.deserialize_keras_object(written)
    assert type(read) is Proxies and read.get_config() == own.get_config()
    assert (read.classes, read.per_class, read.initializer.maxval, read.name) == (7, 3, 2.0, "own")


@pytest.mark.parametrize("per_class", [1, 2])
def test_saved_and_loaded_with_a_model(embeddings, tmp_path, per_class):
    inputs = keras.Input((3,))
    model = keras.Model(inputs, Proxies(5, per_class=per_class)(inputs))
    assert model.output_shape == (None, 5, per_class)[: 2 + (per_class > 1)]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.layers[-1].proxies, model.layers[-1].proxies)
    np.testing.assert_array_equal(loaded(embeddings), model(embeddings))


@pytest.mark.parametrize("arguments", [{"classes": 0}, {"classes": 3, "per_class": 0}])
def test_no_class_or_no_proxy_is_refused(arguments):
    with pytest.raises(ValueError, match="class(es)? to be an integer of 1 or more; received 0"):
        Proxies(**arguments)


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

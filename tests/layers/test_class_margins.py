import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdml.layers import ClassMargins

LABELS = np.array([2, 0, 2, 4])


@pytest.fixture
def embeddings():
    return np.random.default_rng(0).normal(size=(4, 3)).astype("float32")


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


def test_margins_begin_at_beta(embeddings):
    np.testing.assert_array_equal(ClassMargins(5, beta=0.7)(embeddings, LABELS)[:, 0, 3], np.full(4, 0.7, "float32"))
    np.testing.assert_array_equal(ClassMargins(5)(embeddings, LABELS)[:, 0, 3], np.full(4, 1.2, "float32"))


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


def test_float64_stays_and_half_precision_becomes_float32(layer, embeddings):
    assert layer(embeddings.astype("float64"), LABELS).dtype == "float64"
    for half in ("bfloat16", "float16"):
        outputs = layer(tf.cast(embeddings, half), LABELS)[:, 0]
        assert outputs.dtype == "float32"
        np.testing.assert_array_equal(outputs[:, :3], tf.cast(tf.cast(embeddings, half), "float32"))


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16", "bfloat16"])
def test_a_policy_of_half_precision_keeps_float32(embeddings, policy):
    for layer in (ClassMargins(300, dtype=policy), _under_policy(policy)):
        layer.build((None, 3))
        layer.margins.assign(np.arange(300) / 100)
        # 257 and 259 are one number in bfloat16.
        outputs = layer(embeddings, np.array([256, 257, 258, 259]))[:, 0]
        assert layer.margins.dtype == outputs.dtype == "float32"
        np.testing.assert_array_equal(outputs[:, :3], embeddings)
        np.testing.assert_allclose(outputs[:, 3], [2.56, 2.57, 2.58, 2.59], rtol=1e-6)


def _under_policy(policy):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        return ClassMargins(300)
    finally:
        keras.config.set_dtype_policy(before)


def test_config_survives_json():
    written = json.loads(json.dumps(keras.saving.serialize_keras_object(ClassMargins(7, beta=0.3, name="own"))))
    read = keras.saving.deserialize_keras_object(written)
    assert type(read) is ClassMargins and (read.classes, read.beta, read.name) == (7, 0.3, "own")


def test_saved_and_loaded_with_a_model(layer, embeddings, tmp_path):
    inputs = [keras.Input((3,)), keras.Input((), dtype="int32")]
    model = keras.Model(inputs, layer(*inputs))
    assert model.output_shape == (None, 1, 4)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.layers[-1].margins, layer.margins)
    np.testing.assert_array_equal(loaded([embeddings, LABELS]), model([embeddings, LABELS]))


def test_no_class_is_refused():
    with pytest.raises(ValueError, match="classes to be an integer of 1 or more; received 0"):
        ClassMargins(0)

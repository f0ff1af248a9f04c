import keras
import numpy as np
import pytest

from tfdml.layers import Pooling


@pytest.fixture
def features():
    return np.random.default_rng(0).normal(size=(3, 4, 5, 6)).astype("float32")


@pytest.mark.parametrize(
    "kind, expected",
    [
        ("avg", lambda rows: rows.mean(axis=1)),
        ("max", lambda rows: rows.max(axis=1)),
        ("avg+max", lambda rows: rows.mean(axis=1) + rows.max(axis=1)),
        ("gem", lambda rows: np.mean(np.maximum(rows, 1e-6) ** 3, axis=1) ** (1 / 3)),
    ],
)
def test_equal_to_its_formula(features, kind, expected):
    rows = features.reshape(3, 20, 6)
    np.testing.assert_allclose(Pooling(kind)(features), expected(rows), rtol=1e-5)
    np.testing.assert_allclose(Pooling(kind)(rows), expected(rows), rtol=1e-5)
    np.testing.assert_array_equal(Pooling(kind)(rows[:, 0]), rows[:, 0])


def test_the_first_token(features):
    tokens = features.reshape(3, 20, 6)
    np.testing.assert_array_equal(Pooling("first")(tokens), tokens[:, 0])
    np.testing.assert_array_equal(Pooling("first")(tokens[:, 0]), tokens[:, 0])
    with pytest.raises(ValueError, match="needs the tokens.*returns shape \\(3, 4, 5, 6\\)"):
        Pooling("first")(features)


def test_the_power_of_gem_is_learned_and_1_is_the_average(features):
    layer = Pooling("gem", power=1.0)
    features = np.abs(features)
    np.testing.assert_allclose(layer(features), features.mean(axis=(1, 2)), rtol=1e-5)
    (power,) = layer.trainable_weights
    power.assign(40.0)
    np.testing.assert_allclose(layer(features), features.max(axis=(1, 2)), rtol=0.1)
    assert not Pooling("avg+max").trainable_weights


@pytest.mark.parametrize("features", [np.zeros((2, 3, 3, 4)), np.full((2, 3, 3, 4), 1e30), np.full((2, 3, 3, 4), -1.0)])
def test_gem_stays_finite(features):
    import tensorflow as tf

    layer = Pooling("gem")
    features = tf.constant(features, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(features)
        pooled = layer(features)
    gradients = tape.gradient(pooled, [features, layer.exponent.value])
    assert all(np.all(np.isfinite(each)) for each in (pooled, *gradients))


def test_gem_in_half_precision_is_computed_in_float32(features):
    layer = Pooling("gem", dtype="mixed_bfloat16")
    pooled = layer(np.abs(features) * 1e15)
    assert pooled.dtype == "bfloat16" and layer.exponent.dtype == "float32"
    expected = Pooling("gem")(np.abs(features) * 1e15)
    np.testing.assert_allclose(keras.ops.cast(pooled, "float32"), expected, rtol=0.02)


def test_config_and_errors():
    assert Pooling.from_config(Pooling("gem", power=2.5).get_config()).get_config()["power"] == 2.5
    with pytest.raises(ValueError, match="one of 'avg', 'max', 'avg\\+max', 'gem'.*received 'mean'"):
        Pooling("mean")
    with pytest.raises(ValueError, match=r"\[B, h, w, c\].*\(2, 3, 4, 5, 6\)"):
        Pooling()(np.zeros((2, 3, 4, 5, 6)))

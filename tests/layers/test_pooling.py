"""Pooling over positions, and over windows of which the last ones reach over the border."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdml.layers import CeilAveragePooling, CeilMaxPooling, Pooling


def pooled_by_loops(image, size, stride, of_window):
    """Windows begin at 0, stride, 2 stride ... until every row and column is in one."""
    counts = [max(0, -((size - side) // stride)) + 1 for side in image.shape[:2]]
    result = np.zeros((*counts, image.shape[2]), image.dtype)
    for row, column in np.ndindex(*counts):
        window = image[row * stride : row * stride + size, column * stride : column * stride + size]
        result[row, column] = of_window(window, axis=(0, 1))
    return result


@pytest.mark.parametrize("make, of_window", [(CeilMaxPooling, np.max), (CeilAveragePooling, np.mean)])
@pytest.mark.parametrize("size, stride", [(3, 2), (2, 2), (3, 3), (3, 1), (5, 3)])
@pytest.mark.parametrize("height, width", [(8, 8), (9, 9), (8, 9), (7, 10), (12, 6), (5, 9)])
def test_windows_agree_with_loops(make, of_window, size, stride, height, width):
    images = np.random.default_rng([height, width]).random((2, height, width, 3)).astype(np.float32)
    layer = make(size, stride)
    expected = np.stack([pooled_by_loops(image, size, stride, of_window) for image in images])
    np.testing.assert_allclose(layer(images), expected, rtol=1e-5)
    assert layer.compute_output_shape(images.shape) == expected.shape


def test_sizes_need_not_be_known_before():
    inputs, images = keras.Input((None, None, 3)), np.random.default_rng(0).random((2, 8, 9, 3)).astype(np.float32)
    model = keras.Model(inputs, CeilMaxPooling(3, 2)(inputs))
    assert model.output.shape == (None, None, None, 3)
    np.testing.assert_array_equal(model.predict(images, verbose=0), CeilMaxPooling(3, 2)(images))


@pytest.mark.parametrize("make", [CeilMaxPooling, CeilAveragePooling])
@pytest.mark.parametrize("size, stride", [(2, 3), (3, 0)])
def test_windows_that_leave_something_out_are_refused(make, size, stride):
    with pytest.raises(ValueError, match=f"Received: strides={stride}"):
        make(size, stride)


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


def test_what_cannot_be_is_told():
    with pytest.raises(ValueError, match=r"\[B, h, w, c\].*\(2, 3, 4, 5, 6\)"):
        Pooling()(np.zeros((2, 3, 4, 5, 6)))

import json
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdml.layers import CenterMerging, Proxies


def naive(centers, weight):
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
    np.testing.assert_allclose(value, naive(centers, weight), rtol=tolerance)


def test_by_hand():
    # Two classes of two centers: at a right angle, and opposite.
    centers = tf.constant([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0], [-1.0, 0.0]])
    expected = 0.5 * (math.sqrt(2) + 2) / (2 * 2 * 1)
    np.testing.assert_allclose(CenterMerging(2, weight=0.5)(centers), expected, rtol=1e-6)


def test_equal_centers_and_zeros_have_finite_gradients():
    for rows in ([[1.0, 1.0]] * 6, [[0.0, 0.0]] * 6, [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]] * 2):
        centers = tf.Variable(rows)
        with tf.GradientTape() as tape:
            value = CenterMerging(3)(centers)
        assert np.isfinite(value) and np.all(np.isfinite(tape.gradient(value, centers)))
    np.testing.assert_allclose(CenterMerging(3)(tf.ones((6, 2))), 0.0, atol=1e-3)


def test_it_draws_centers_of_a_class_together_and_no_others():
    centers = tf.Variable([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    for _ in range(40):
        with tf.GradientTape() as tape:
            value = CenterMerging(2)(centers)
        centers.assign_sub(tape.gradient(value, centers))
    units = centers.numpy() / np.linalg.norm(centers, axis=1, keepdims=True)
    assert np.linalg.norm(units[0] - units[1]) < 0.15 and np.linalg.norm(units[2] - units[3]) < 0.15
    assert np.linalg.norm(units[0] - units[2]) > 1.9


def test_a_layer_of_proxies_adds_it_once_a_step():
    layer = Proxies(4, per_class=3, regularizer=CenterMerging(3, 0.7))
    for _ in range(3):
        layer(np.ones((2, 5), np.float32))
    expected = naive(layer.proxies.numpy().reshape(4, 3, 5), 0.7)
    (value,) = layer.losses
    np.testing.assert_allclose(value, expected, rtol=1e-5)


def test_config_survives_json():
    own = Proxies(4, per_class=3, regularizer=CenterMerging(3, 0.7))
    read = keras.saving.deserialize_keras_object(json.loads(json.dumps(keras.saving.serialize_keras_object(own))))
    assert type(read.regularizer) is CenterMerging
    assert read.regularizer.get_config() == {"per_class": 3, "weight": 0.7}


def test_one_center_is_refused():
    with pytest.raises(ValueError, match="expects per_class to be an integer of 2 or more; received 1"):
        CenterMerging(1)

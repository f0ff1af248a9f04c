"""Local response norm against loops, and against TensorFlow's own."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdml.layers import LocalResponseNorm


def normed_by_loops(vector, size, alpha, beta, bias):
    result = np.zeros(len(vector))
    for channel, value in enumerate(vector):
        near = vector[max(0, channel - size // 2) : channel + size // 2 + 1].astype(float)
        result[channel] = value / (bias + alpha / size * sum(near**2)) ** beta
    return result


@pytest.mark.parametrize("arguments", [{}, {"size": 3, "alpha": 0.4, "beta": 0.5, "bias": 2.0}, {"size": 1}], ids=str)
def test_loops_agree(arguments):
    features = np.random.default_rng(0).normal(scale=100, size=(2, 3, 4, 11)).astype(np.float32)
    full = {"size": 5, "alpha": 1e-4, "beta": 0.75, "bias": 1.0, **arguments}
    expected = np.apply_along_axis(normed_by_loops, -1, features, **full)
    np.testing.assert_allclose(LocalResponseNorm(**arguments)(features), expected, rtol=1e-5)


def test_tensorflow_agrees_with_its_own_meaning_of_alpha():
    features = np.random.default_rng(0).normal(scale=100, size=(2, 3, 4, 16)).astype(np.float32)
    expected = tf.nn.lrn(features, depth_radius=2, bias=1.0, alpha=1e-4 / 5, beta=0.75)
    np.testing.assert_allclose(LocalResponseNorm()(features), expected, rtol=1e-5)


def test_half_precision_keeps_its_type_and_sums_in_float32():
    features = np.full((1, 1, 1, 8), 300.0)
    layer = LocalResponseNorm(dtype="mixed_float16")
    result = layer(tf.cast(features, "float16"))
    assert result.dtype == "float16"
    np.testing.assert_allclose(result, LocalResponseNorm()(features.astype(np.float32)), rtol=1e-3)


def test_the_configuration_makes_the_layer_again():
    layer = LocalResponseNorm(size=3, alpha=0.1, beta=0.5, bias=2.0, name="norm")
    again = keras.layers.deserialize(keras.layers.serialize(layer))
    assert again.get_config() == layer.get_config()


def test_an_even_number_of_channels_is_refused():
    with pytest.raises(ValueError, match="size=4"):
        LocalResponseNorm(size=4)

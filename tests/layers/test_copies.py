"""Copies of parts of networks, and of what keeps their resolution."""

import keras
import numpy as np
import pytest
from keras import layers

from tfdml.layers.copies import copied

FEATURES = np.random.default_rng(0).normal(size=(2, 8, 6, 4)).astype(np.float32)
REDUCING = {
    "convolution": [layers.Conv2D(5, 3, strides=2, padding="same")],
    "convolution without padding": [layers.Conv2D(5, 3, strides=2)],
    "padding on one side": [layers.ZeroPadding2D(((0, 1), (0, 1))), layers.DepthwiseConv2D(3, strides=2)],
    "padding on both sides": [layers.ZeroPadding2D(1), layers.SeparableConv2D(5, 3, strides=2)],
    "pooling": [layers.MaxPooling2D(3, strides=2)],
    "padded pooling": [layers.ZeroPadding2D(1), layers.AveragePooling2D(3, strides=2)],
    "a sequence": [keras.Sequential([layers.LayerNormalization(), layers.Conv2D(5, 2, strides=2)])],
    "nothing": [layers.ZeroPadding2D(1), layers.Conv2D(5, 3)],
}


@pytest.mark.parametrize("kind", REDUCING)
def test_a_copy_keeps_the_resolution(kind):
    start = features = keras.Input((None, None, 4))
    for layer in [*REDUCING[kind], layers.ReLU()]:
        features = layer(features)
    copy = copied(keras.Model(start, features), "copy", keep_resolution=True)
    assert copy(FEATURES).shape[:3] == FEATURES.shape[:3]
    reduced = keras.Model(start, features)
    for mine, other in zip(copy.weights, reduced.weights, strict=True):
        np.testing.assert_array_equal(mine, other)
        assert mine is not other and mine.path.startswith("copy_") or "sequential" in mine.path


def test_where_the_network_looks_the_copy_sees_the_same():
    """Every second position, of windows that begin at the first pixel."""
    start = keras.Input((None, None, 4))
    padded = layers.ZeroPadding2D(((0, 1), (0, 1)))(start)
    part = keras.Model(start, layers.Conv2D(5, 3, strides=2)(padded))
    copy = copied(part, "copy", keep_resolution=True)
    np.testing.assert_allclose(copy(FEATURES)[:, 1::2, 1::2], part(FEATURES), atol=1e-5)


def test_a_copy_that_may_reduce_does():
    start = keras.Input((None, None, 4))
    part = keras.Model(start, layers.MaxPooling2D()(layers.Conv2D(5, 3, strides=2)(start)))
    np.testing.assert_array_equal(copied(part, "copy")(FEATURES), part(FEATURES))

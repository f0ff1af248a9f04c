"""Stages, found in the graphs of networks, and copies of them that keep their resolution."""

import keras
import numpy as np
import pytest
from keras import layers

from tfdml.layers.blocks import stages
from tfdml.layers.copies import copied

IMAGES = (None, None, 3)


def conv(features, name, channels=4, strides=2, padding="same"):
    return layers.Conv2D(channels, 3, strides=strides, padding=padding, name=name)(features)


def names(images, output):
    found = stages(images, output)
    return {stage: features._keras_history.operation.name for stage, features in found.items()}


def test_the_last_layer_of_each_resolution():
    images = keras.Input(IMAGES)
    features = layers.ReLU(name="relu")(conv(images, "first"))
    features = layers.MaxPooling2D(name="pool")(features)
    features = conv(conv(features, "kept", strides=1), "halved")
    assert names(images, features) == {"stage1": "relu", "stage2": "kept", "stage3": "halved"}


def test_a_layer_with_a_path_around_it_is_none():
    """Of a residual block, before which there is nothing, and of one with a projection."""
    images = keras.Input(IMAGES)
    start = conv(images, "start")
    added = layers.Add(name="added")([start, conv(conv(start, "inside", strides=1), "last", strides=1)])
    output = layers.Add(name="output")([conv(added, "projected"), conv(conv(added, "same", strides=1), "strided")])
    assert names(images, output) == {"stage1": "added", "stage2": "output"}


def test_a_layer_that_only_pads_is_none():
    images = keras.Input(IMAGES)
    features = layers.ZeroPadding2D(((0, 1), (0, 1)), name="pad")(conv(images, "first"))
    assert names(images, conv(features, "second", padding="valid")) == {"stage1": "first", "stage2": "second"}


@pytest.mark.parametrize("side", [None, 36])
def test_what_windows_at_the_border_lose_is_no_resolution(side):
    """Sides are 36, 17, 15, 13, 6, 2: the last is an 18th, at an eighth of any large image."""
    images = features = keras.Input((side, side, 3))
    for name, strides in {"a": 2, "b": 1, "c": 1, "d": 2, "e": 2}.items():
        features = conv(features, name, strides=strides, padding="valid")
    assert names(images, features) == {"stage1": "c", "stage2": "d", "stage3": "e"}


def test_a_network_of_one_size_has_the_stages_of_that_size():
    images = keras.Input((32, 32, 3))
    features = conv(conv(images, "first"), "second")
    tokens = layers.Reshape((64, 4))(features)
    assert names(images, layers.Dense(2)(tokens)) == {"stage1": "first", "stage2": "second"}


def test_what_has_one_position_is_none():
    images = keras.Input(IMAGES)
    features = conv(images, "first")
    gates = layers.Dense(4, activation="sigmoid")(layers.GlobalAveragePooling2D(keepdims=True)(features))
    features = conv(layers.Multiply(name="gated")([features, gates]), "second")
    pooled = layers.GlobalAveragePooling2D(keepdims=True)(features)
    assert names(images, pooled) == {"stage1": "gated", "stage2": "second"}


def test_where_paths_lead_around_all_layers_it_is_one_that_joins_the_most():
    """Cells that read the last two, as those of NASNet: the second stage has no other place to look at."""
    images = keras.Input(IMAGES)
    before = cell = conv(images, "stem")
    for number, strides in enumerate((2, 1, 1, 2, 1)):
        size = keras.Sequential([layers.Conv2D(4, 1), layers.MaxPooling2D(2)]) if strides == 2 else layers.Conv2D(4, 1)
        older = layers.Conv2D(4, 1)(before) if before.shape == cell.shape else before
        before, cell = cell, layers.Add(name=f"cell{number}")([size(cell), size(older)])
        before = layers.MaxPooling2D(2, name=f"shrunk{number}")(before) if strides == 2 else before
    output = layers.ReLU(name="output")(layers.Add()([before, cell]))
    assert names(images, output) == {"stage1": "stem", "stage2": "cell2", "stage3": "output"}


def test_a_layer_that_is_called_again_counts_each_time():
    images, relu = keras.Input(IMAGES), layers.ReLU(name="relu")
    first = relu(conv(images, "first"))
    second = relu(conv(first, "second"))
    found = stages(images, second)
    assert found["stage1"] is first and found["stage2"] is second and len(found) == 2


def test_networks_without_positions_have_none():
    numbers = keras.Input((8,))
    assert stages(numbers, layers.Dense(2)(numbers)) == {}
    images = keras.Input(IMAGES)
    assert stages(images, conv(images, "same", strides=1)) == {}
    patches = layers.Conv2D(4, 1)(images)
    assert stages(images, layers.UpSampling2D()(patches)) == {}


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

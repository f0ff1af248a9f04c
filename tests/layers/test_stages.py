"""Stages, found in the graphs of networks."""

import keras
import pytest
from keras import layers

from tfdml.layers.blocks import stages

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

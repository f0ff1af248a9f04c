"""Counted work against formulas, and against what torchvision's documentation says of its networks."""

import keras
import pytest

from tfdml.backbones.multiply_adds import multiply_adds
from tfdml.registry import create


def test_every_kind_of_layer_by_its_formula():
    inputs = keras.Input((None, None, 6))
    features = keras.layers.Conv2D(8, (3, 5), strides=2, padding="same", groups=2)(inputs)
    features = keras.layers.BatchNormalization()(features)
    features = keras.layers.DepthwiseConv2D(3, depth_multiplier=2)(features)
    features = keras.layers.SeparableConv2D(10, 3, padding="same")(features)
    features = keras.layers.Dense(7)(keras.layers.GlobalAveragePooling2D()(features))
    model = keras.Model(inputs, features)
    grouped = 8 * 10 * 8 * (3 * 5 * 3)
    depthwise = 6 * 8 * 16 * 9
    separable = 6 * 8 * (16 * 9 + 16 * 10)
    assert multiply_adds(model, (16, 20, 6)) == grouped + depthwise + separable + 10 * 7


def test_a_layer_that_is_used_twice_counts_twice():
    inputs = keras.Input((None, None, 3))
    layer = keras.layers.Conv2D(3, 1)
    assert multiply_adds(keras.Model(inputs, layer(layer(inputs))), (4, 5, 3)) == 2 * 4 * 5 * 9


def test_what_cannot_be_counted_is_an_error():
    inputs = keras.Input((None, 8))
    model = keras.Model(inputs, keras.layers.MultiHeadAttention(2, 4)(inputs, inputs))
    with pytest.raises(ValueError, match="multi_head_attention.*MultiHeadAttention"):
        multiply_adds(model, (5, 8))


# In units of 1e9, with the classifier, for images of 224 pixels.
DOCUMENTED = {
    "googlenet(batch_norm=True)": (1.498, 1024 * 1000),
    "resnet18": (1.814, 512 * 1000),
    "resnet50": (4.089, 2048 * 1000),
}


@pytest.mark.parametrize("spec", DOCUMENTED)
def test_documented_numbers(spec):
    expected, classifier = DOCUMENTED[spec]
    counted = multiply_adds(create("backbone", spec), (224, 224, 3)) + classifier
    assert counted / 1e9 == pytest.approx(expected, abs=0.0006)


def test_trunk_and_tail_add_up_and_the_layers_stay_as_they_were():
    backbone = create("backbone", "small(width=4, stages=3)")
    trunk, tail = backbone.split_at("stage2")
    uses = [len(layer._inbound_nodes) for layer in backbone.layers]
    whole = multiply_adds(backbone, (32, 32, 3))
    assert whole == multiply_adds(trunk, (32, 32, 3)) + multiply_adds(tail, (16, 16, 8)) > 0
    assert [len(layer._inbound_nodes) for layer in backbone.layers] == uses

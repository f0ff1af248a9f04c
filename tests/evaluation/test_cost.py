"""Counted work, compared with formulas, torchvision's documentation and Attention-based Ensemble's table."""

import keras
import numpy as np
import pytest

from tfdml.backbones import GoogLeNet, Small
from tfdml.evaluation import cost
from tfdml.evaluation.cost import images_per_second, parameters_of
from tfdml.layers import LocalResponseNorm
from tfdml.methods import AttentionEnsemble, MultiHead, MultiTail, Single
from tfdml.registry import create


def multiply_adds(model, input_shape):
    return cost(model, input_shape)["multiply_adds"]


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


def test_products_with_constants_and_other_kinds_do_not_count():
    inputs = keras.Input((None, None, 3))
    features = LocalResponseNorm()(keras.layers.Conv2D(4, 1, use_bias=False)(inputs))
    model = keras.Model(inputs, features)
    assert cost(model, (5, 8, 3)) == {"parameters": 12, "multiply_adds": 5 * 8 * 12}
    model = keras.Model(inputs, keras.ops.einsum("bhwc,bhwd->bcd", features, features))
    assert cost(model, (5, 8, 3)) == {"parameters": 12, "multiply_adds": None}


def test_a_convolution_with_batch_norm_counts_once_in_a_method():
    backbone = Small(width=8)
    inside, features = multiply_adds(backbone, (32, 32, 3)), backbone.output.shape[-1]
    assert multiply_adds(Single(backbone, embedding_size=16), (32, 32, 3)) == inside + features * 16


# In units of 1e9, with the classifier, for images of 224 pixels.
DOCUMENTED = {
    "googlenet(batch_norm=True)": (1.498, 1024 * 1000),
    "resnet18": (1.814, 512 * 1000),
    "resnet50": (4.089, 2048 * 1000),
}


@pytest.mark.slow
@pytest.mark.parametrize("spec", DOCUMENTED)
@pytest.mark.few_by_day(1)
def test_documented_numbers(spec):
    expected, classifier = DOCUMENTED[spec]
    counted = multiply_adds(create("backbone", spec), (224, 224, 3)) + classifier
    assert counted / 1e9 == pytest.approx(expected, abs=0.0006)


def test_trunk_and_tail_add_up():
    backbone = create("backbone", "small(width=4, stages=3)")
    trunk, tail = backbone.split_at("stage2")
    whole = multiply_adds(backbone, (32, 32, 3))
    assert whole == multiply_adds(trunk, (32, 32, 3)) + multiply_adds(tail, (16, 16, 8)) > 0


# Table 1 of the paper, and of its supplement: parameters in units of 1e7, FLOPs in units of 1e9.
TABLE = {
    "1-head": (MultiHead, {"learners": 1}, 0.65, 1.58),
    "4-heads": (MultiHead, {"learners": 4}, 2.24, 3.60),
    "ABE-1": (AttentionEnsemble, {"learners": 1}, 0.97, 2.21),
    "ABE-8": (AttentionEnsemble, {"learners": 8}, 1.20, 7.46),
    "8-tails": (MultiTail, {"learners": 8}, 1.08, 12.7),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", TABLE)
def test_attention_based_ensemble_costs_what_the_paper_says(name):
    method, options, parameters, flops = TABLE[name]
    model = method(GoogLeNet(), embedding_size=512, **options)
    model(np.zeros((1, 224, 224, 3), np.float32))
    found = cost(model, (224, 224, 3))
    assert found["parameters"] / 1e7 == pytest.approx(parameters, rel=0.005)
    assert found["multiply_adds"] / 1e9 == pytest.approx(flops, rel=0.005)


def test_parameters_are_all_weights_but_those_of_the_loss():
    model = Single(Small(width=4, stages=2), embedding_size=8)
    model.compile("sgd", "teacher(teacher_dims=6)")
    model.build((None, 16, 16, 3))
    model.backbone.trainable = False
    assert len(model.loss_layers.variables) == 1
    expected = sum(np.size(weight) for weight in [*model.backbone.get_weights(), *model.head.get_weights()])
    assert parameters_of(model) == expected > cost(model, (16, 16, 3))["parameters"]


def test_speed_is_measured_in_images():
    model = keras.Sequential([keras.Input([4, 4, 3]), keras.layers.Flatten(), keras.layers.Dense(2)])
    assert images_per_second(model, (4, 4, 3), batch_size=2, repeats=1) > 0

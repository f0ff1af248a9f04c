"""Batch normalization in one operation gives Keras' results, in training and with moving statistics."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdml.layers.norms import freeze_batch_norm
from tfdml.methods.step.replicas import fuse_batch_norms

IMAGES = np.random.default_rng(0).normal(size=(4, 8, 8, 3)).astype(np.float32)
CONVOLUTIONS = {
    "plain": lambda: keras.layers.Conv2D(6, 3, use_bias=False),
    "with a bias": lambda: keras.layers.Conv2D(6, 3, strides=2, padding="same"),
    "dilated": lambda: keras.layers.Conv2D(6, 3, dilation_rate=2, use_bias=False),
    "depthwise": lambda: keras.layers.DepthwiseConv2D(3, depth_multiplier=2, use_bias=False),
    "separable": lambda: keras.layers.SeparableConv2D(6, 3),
    "in groups": lambda: keras.layers.Conv2D(6, 3, groups=3),
    "none": lambda: keras.layers.ReLU(),
}


def network(before, **arguments):
    """A convolution, batch normalization, and what makes gradients of all values differ; weights are not the first."""
    keras.utils.set_random_seed(0)
    norm = keras.layers.BatchNormalization(**arguments)
    model = keras.Sequential([keras.layers.Input(IMAGES.shape[1:]), before(), norm, keras.layers.Dense(2)])
    for weight in model.weights:
        if "moving_variance" in weight.path:
            weight.assign(np.linspace(0.5, 2.0, weight.shape[0]))
        elif "kernel" not in weight.path:
            weight.assign(np.linspace(-0.5, 1.0, weight.shape[0]))
    return model


def results(model, training):
    """Outputs, gradients and moving statistics of a call in a graph."""

    @tf.function
    def call(images):
        with tf.GradientTape() as tape:
            outputs = model(images, training=training)
            loss = tf.reduce_sum(tf.square(outputs - 1))
        return outputs, tape.gradient(loss, model.trainable_variables)

    outputs, gradients = call(IMAGES)
    return [np.asarray(each) for each in (outputs, *gradients, *model.non_trainable_variables)]


def assert_equal_to_keras(before, training, which="none", **arguments):
    ours, of_keras = network(before, **arguments), network(before, **arguments)
    freeze_batch_norm(ours, which)
    freeze_batch_norm(of_keras, which)
    fuse_batch_norms(ours)
    found, expected = results(ours, training), results(of_keras, training)
    scale = max(np.abs(each).max() for each in expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6 * scale, rtol=1e-5)


@pytest.mark.parametrize("before", CONVOLUTIONS.values(), ids=CONVOLUTIONS)
@pytest.mark.parametrize(
    "training, which",
    [
        (True, "none"),
        (False, "none"),
        (True, "statistics"),
        pytest.param(True, "all", marks=[pytest.mark.slow, pytest.mark.nightly]),
    ],
)
@pytest.mark.few_by_day(6)
def test_equals_keras(before, training, which):
    assert_equal_to_keras(before, training, which)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("arguments", [{"scale": False}, {"center": False}, {"momentum": 0.5, "epsilon": 0.1}])
def test_equals_keras_with_arguments(training, arguments):
    assert_equal_to_keras(CONVOLUTIONS["with a bias"], training, **arguments)


def operations(model, training=False):
    """Types of the operations that a call of a model runs, without those that nothing uses."""
    function = tf.function(lambda images: model(images, training=training)).get_concrete_function(IMAGES)
    left, seen = [output.op for output in function.outputs], {}
    while left:
        operation = left.pop()
        if operation.name not in seen:
            seen[operation.name] = operation.type
            left += [each.op for each in operation.inputs]
    return list(seen.values())


@pytest.mark.parametrize("before", ["plain", "with a bias", "depthwise"])
def test_frozen_is_part_of_the_convolution(before):
    model = network(CONVOLUTIONS[before])
    fuse_batch_norms(model)
    found = operations(model)
    assert sum(each in ("Conv2D", "DepthwiseConv2dNative") for each in found) == 1
    assert "BiasAdd" in found
    # Keras' own multiplies all pixels.
    assert "FusedBatchNormV3" not in found


def test_training_is_one_operation():
    model = network(CONVOLUTIONS["plain"])
    fuse_batch_norms(model)
    assert "FusedBatchNormV3" in operations(model, training=True)
    assert "SquaredDifference" not in operations(model, training=True)


def test_what_the_convolution_gives_elsewhere_stays():
    """A second reader of the convolution's output gets it without the normalization."""
    model = network(CONVOLUTIONS["with a bias"])
    both = keras.Model(model.inputs, [model.layers[0].output, model.layers[1].output])
    expected = both.predict(IMAGES, verbose=0)
    fuse_batch_norms(both)
    both.predict_function = None
    for one, other in zip(both.predict(IMAGES, verbose=0), expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_a_sum_of_two_branches_is_no_bias():
    inputs = keras.layers.Input(IMAGES.shape[1:])
    branches = [
        keras.layers.Conv2D(6, 3, kernel_initializer=keras.initializers.Constant(each))(inputs) for each in (1, 2)
    ]
    model = keras.Model(inputs, keras.layers.BatchNormalization()(keras.layers.add(branches)))
    model.layers[-1].moving_mean.assign(np.arange(6.0))
    expected = np.asarray(model(IMAGES))
    fuse_batch_norms(model)
    np.testing.assert_allclose(model.predict(IMAGES, verbose=0), expected, atol=1e-4)


@pytest.mark.parametrize(
    "make",
    [
        lambda: keras.layers.BatchNormalization(dtype="float64"),
        lambda: keras.layers.BatchNormalization(dtype="mixed_float16"),
        lambda: keras.layers.BatchNormalization(synchronized=True),
        lambda: keras.layers.BatchNormalization(renorm=True),
    ],
)
def test_others_stay_keras_own(make):
    layer = make()
    before = layer.call
    fuse_batch_norms(layer)
    assert layer.call == before


def test_a_second_time_changes_nothing():
    model = network(CONVOLUTIONS["plain"])
    fuse_batch_norms(model)
    before = model.layers[1].call
    fuse_batch_norms(model)
    assert model.layers[1].call is before

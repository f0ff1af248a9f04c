"""Two steps of every method on a GPU change weights as two steps on the CPU do: with XLA, and in half precision."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from tests.methods.test_every_method import IMAGES, METHODS, make, targets_of, two_layers

# Policy, whether XLA compiles the step, and how much what changes may differ, as a part of it: in half precision some
# hundred times the rounding of a number.
WAYS = {
    "float32": ("float32", False, 1e-4),
    "float32_with_xla": ("float32", True, 1e-4),
    "bfloat16": ("mixed_bfloat16", False, 0.4),
    "bfloat16_with_xla": ("mixed_bfloat16", True, 0.4),
    "float16": ("mixed_float16", False, 0.05),
    "float16_with_xla": ("mixed_float16", True, 0.05),
}


@pytest.fixture(autouse=True)
def policy_restored():
    yield
    keras.mixed_precision.set_global_policy("float32")


def two_steps(method, device=None, policy="float32", jit_compile=False):
    """The trained model, and all that two steps on a device change of its weights, as one array.

    None is the device that TensorFlow chooses, as in users' code: a GPU, but for the input pipeline.
    """
    keras.utils.set_random_seed(0)
    keras.mixed_precision.set_global_policy(policy)
    optimizer, start = keras.optimizers.SGD(0.01), []
    if policy == "mixed_float16":
        # With the default, 2^15, gradients overflow in the first steps, which are then skipped.
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=16.0)
    with tf.device(device):
        model = make(method, two_layers())
        model.compile(optimizer, loss=tfdml.losses.ProxyNCA(classes=2), jit_compile=jit_compile)
        note = keras.callbacks.LambdaCallback(on_train_begin=lambda logs: start.append(trained(model)))
        model.fit(IMAGES, targets_of(method), batch_size=4, epochs=2, verbose=0, callbacks=[note])
    return model, trained(model) - start[0]


@functools.cache
def changed_on_cpu(method):
    return two_steps(method, "CPU:0")[1]


def trained(model):
    return np.concatenate([weight.numpy().ravel() for weight in model.trainable_variables])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("method", METHODS)
def test_as_on_the_cpu(method, way, kind):
    policy, jit_compile, tolerance = WAYS[way]
    expected = changed_on_cpu(method)
    model, found = two_steps(method, policy=policy, jit_compile=jit_compile)
    assert int(model.optimizer.iterations) == 2 and model.jit_compile is jit_compile
    assert all(kind in weight.value.device for weight in model.trainable_variables)
    assert np.linalg.norm(expected) > 1e-3
    assert np.linalg.norm(found - expected) <= tolerance * np.linalg.norm(expected)

"""Frozen batch norm, local response normalization, drop path and the precision of layers."""

import contextlib
from typing import Annotated, Unpack

import keras
import numpy as np
from keras import ops

from tfdml.layers.loss_layer import Layer
from tfdml.registry.arguments import Count, FrozenBatchNorm, LayerArguments, NotNegative, Positive, number
from tfdml.registry.fields import Declared, declared
from tfdml.runtime.backends import tensorflow_if_used
from tfdml.runtime.keras_internals import layers_of

tf = tensorflow_if_used()


@declared
def freeze_batch_norm(model: keras.layers.Layer, which: FrozenBatchNorm = "statistics") -> None:
    """Freezes the batch normalization of a model, so that training normalizes with the stored moving statistics.

    Use it when you fine-tune a pretrained network with small batches, or with batches of few classes, because their
    statistics differ from those that inference uses. Saving a model does not store this setting, so call the function
    again after loading. Only `tfdml.methods` models store it, as their argument `freeze_batch_norm`.

    Args:
        model: Keras model or layer. It is changed in place.
        which: What to freeze: only the moving `"statistics"`, `"all"` (also scales and offsets), or `"none"`. Defaults
            to `"statistics"`.

    Raises:
        ValueError: If the model has no batch normalization.

    Example:

    ```python
    network = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4), keras.layers.BatchNormalization()])
    tfdml.layers.freeze_batch_norm(network, "all")
    len(network.trainable_variables)  # 2
    ```
    """
    if which == "none":
        return
    norms = batch_norms(model)
    if not norms:
        raise ValueError(f"{model.name} has no batch normalization to freeze. Remove freeze_batch_norm={which!r}.")
    for layer in norms:
        if which == "all":
            # Keras then runs the layer in inference mode, whatever `training` is.
            layer.trainable = False
        else:
            _keep_statistics(layer)


def batch_norms(model):
    """Returns all batch normalization layers of a model, including nested layers."""
    return [layer for layer in layers_of(model) if isinstance(layer, keras.layers.BatchNormalization)]


def moves_statistics(layer):
    """Whether training updates the moving statistics of a batch normalization layer."""
    return layer.trainable and not vars(layer).get("keeps_statistics", False)


def _keep_statistics(layer):
    """Runs a layer in inference mode with trainable scales and offsets, which Keras does not offer."""
    layer.keeps_statistics = True
    call = layer.call

    def call_with_statistics(inputs, training=None, mask=None):
        if training and _has_fused_gradients(layer, inputs):
            return _fused(layer, inputs)
        return call(inputs, training=False, mask=mask)

    layer.call = call_with_statistics


def _has_fused_gradients(layer, inputs):
    """Returns whether TensorFlow has a deterministic operation for a layer and its gradients, as it does on CPUs."""
    if tf is None or not (layer.scale and layer.center and layer.trainable):
        return False
    is_image = len(inputs.shape) == 4 and layer.axis in (-1, 3) and inputs.dtype == tf.float32
    return is_image and not tf.config.get_visible_devices("GPU")


def _fused(layer, inputs):
    """Returns what the call of a layer returns in inference mode.

    The gradients of scales and offsets are sums over all pixels. Their operation needs half the time of the sums.
    """
    values = (layer.gamma, layer.beta, layer.moving_mean, layer.moving_variance)
    values = [tf.convert_to_tensor(each) for each in values]
    return tf.compat.v1.nn.fused_batch_norm(inputs, *values, epsilon=layer.epsilon, is_training=False)[0]


@keras.saving.register_keras_serializable(package="tfdml")
class LocalResponseNorm(Layer):
    """Normalizes each value by its neighboring channels, as AlexNet and GoogLeNet do (LRN in Caffe).

    The output is `x / (bias + alpha / size * s)^beta`, where `s` is the sum of squares over `size` channels around a
    value. Use it to rebuild networks that were trained in Caffe. The layer computes in float32, whatever the dtype
    policy.

    Args:
        size: Integer, odd. Number of channels in the sum. Channels before the first and after the last count as zeros.
            Defaults to `5`.
        alpha: Float. Factor of the sum. Defaults to `1e-4`.
        beta: Float. Exponent. Defaults to `0.75`.
        bias: Float. Offset, which Caffe calls k. Defaults to `1.0`.
        activity_regularizer, trainable, dtype, autocast, name: see `keras.layers.Layer`.

    Returns:
        Features of the same shape and dtype as the input.

    Raises:
        ValueError: If `size` is even.

    Example:

    ```python
    features = np.ones((1, 1, 1, 3), "float32")
    tfdml.layers.LocalResponseNorm(size=3, alpha=3.0)(features)[0, 0, 0, 0]  # 0.439
    ```
    """

    size: Count = 5
    alpha: NotNegative = 1e-4
    beta: NotNegative = 0.75
    bias: Positive = 1.0

    def check_arguments(self):
        if self.size % 2 == 0:
            raise ValueError(f"size must be an odd number of channels. Received: size={self.size}.")

    def call(self, inputs):
        features = ops.cast(inputs, "float32")
        numbers = np.arange(features.shape[-1])
        near = np.abs(numbers[:, None] - numbers) <= self.size // 2
        # A product with a band matrix of ones is faster than a sum of slices.
        sums = ops.matmul(ops.square(features), ops.convert_to_tensor(near.astype("float32")))
        scale = self.bias + self.alpha / self.size * sums
        return ops.cast(features * _power(scale, -self.beta), inputs.dtype)

    def compute_output_shape(self, input_shape):
        return input_shape


def _power(values, exponent):
    if exponent != -0.75:
        return ops.power(values, exponent)
    # For the usual exponent, two square roots are four times faster than a power.
    inverse = ops.rsqrt(values)
    return inverse * ops.sqrt(inverse)


@keras.saving.register_keras_serializable(package="tfdml")
class DropPath(Declared, keras.layers.Layer):
    """Drops a residual branch for a random fraction of the images during training (stochastic depth).

    Place it at the end of the branch, before the sum. During training, dropped images `[B, ...]` become zeros, and the
    others are divided by `1 - rate`, so that the expected value stays the same. In inference, nothing changes. See
    Huang et al., Deep Networks with Stochastic Depth, 2016.

    Args:
        rate: Float from 0 to less than 1. Fraction of images to drop. Defaults to `0.0`.
        **kwargs: `name`, `dtype` and `trainable` of a Keras layer.

    Call arguments:
        inputs: `[B, ...]` output of the branch.
        training: Boolean. Whether to drop images.

    Returns:
        Values of the same shape.

    Example:

    ```python
    tfdml.layers.DropPath(0.5)(np.ones((3, 2), "float32"), training=False)[0, 0]  # 1.0
    ```
    """

    def __init__(self, rate: Annotated[float, number(at_least=0, below=1)] = 0.0, **kwargs: Unpack[LayerArguments]):
        super().__init__(**kwargs)
        self.rate = float(rate)
        self.seed_generator = keras.random.SeedGenerator()

    def call(self, inputs, training=None):
        if not training or not self.rate:
            return inputs
        shape = (ops.shape(inputs)[0],) + (1,) * (len(inputs.shape) - 1)
        kept = keras.random.uniform(shape, seed=self.seed_generator) >= self.rate
        return inputs * ops.cast(kept, inputs.dtype) / (1 - self.rate)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), "rate": self.rate}


@contextlib.contextmanager
def layers_in(policy):
    """Returns a context in which new layers have a Keras dtype policy. If `policy` is None, it is the global policy."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(before if policy is None else keras.dtype_policies.get(policy))
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)

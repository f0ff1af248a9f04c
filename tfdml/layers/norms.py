"""Frozen batch norm, local response norm, drop path, and the precision of layers."""

import contextlib
from typing import Annotated, Unpack

import keras
import numpy as np
from keras import ops

from tfdml.layers.loss_layer import Layer
from tfdml.registry.arguments import Count, FrozenBatchNorm, LayerArguments, NotNegative, Positive, number
from tfdml.registry.fields import Declared, declared
from tfdml.runtime.keras_internals import layers_of


@declared
def freeze_batch_norm(model: keras.layers.Layer, which: FrozenBatchNorm = "statistics") -> None:
    """Freezes the moving statistics of every batch normalization of a model, and normalizes with them in training too.

    A saved model does not store this, except for the models of `tfdml.methods`, which have an argument for it.

    Args:
        model: Keras model or layer.
        which: `statistics` leaves scales and offsets trainable; `all` freezes them too; `none` changes nothing.
    """
    if which == "none":
        return
    norms = batch_norms(model)
    if not norms:
        raise ValueError(f"{model.name} has no batch normalization to freeze; leave out freeze_batch_norm={which!r}.")
    for layer in norms:
        if which == "all":
            # Keras then runs it in inference mode, whatever `training` says.
            layer.trainable = False
        else:
            _keep_statistics(layer)


def batch_norms(model):
    """Returns all batch normalization layers of a model, nested ones too."""
    return [layer for layer in layers_of(model) if isinstance(layer, keras.layers.BatchNormalization)]


def moves_statistics(layer):
    """Whether training normalizes with the statistics of each batch, and so moves those of a batch normalization."""
    return layer.trainable and not vars(layer).get("keeps_statistics", False)


def _keep_statistics(layer):
    """Runs a layer in inference mode with trainable scales and offsets, which Keras does not offer."""
    layer.keeps_statistics = True
    call = layer.call
    layer.call = lambda inputs, training=None, mask=None: call(inputs, training=False, mask=mask)


@keras.saving.register_keras_serializable(package="tfdml")
class LocalResponseNorm(Layer):
    """Computes `x / (bias + alpha / size * s)^beta`, where s sums squares over `size` channels, as in Caffe.

    It computes in float32, whatever the dtype policy.

    Args:
        size: number of channels, odd; those beyond the first and the last count as zeros.
        alpha, beta, bias: see the formula; Caffe calls the last one k.
    """

    size: Count = 5
    alpha: NotNegative = 1e-4
    beta: NotNegative = 0.75
    bias: Positive = 1.0

    def check_arguments(self):
        if self.size % 2 == 0:
            raise ValueError(f"Expected an odd number of channels, received size={self.size}.")

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
    # Four times faster than a power, for the usual exponent.
    inverse = ops.rsqrt(values)
    return inverse * ops.sqrt(inverse)


@keras.saving.register_keras_serializable(package="tfdml")
class DropPath(Declared, keras.layers.Layer):
    """Sets a branch `[B, ...]` to zero for a random part of the images in training, and divides the rest by their part.

    Huang et al., Deep Networks with Stochastic Depth, 2016.

    Args:
        rate: fraction of images whose branch is left out.
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
    """Returns a context in which new layers have the precision of a Keras dtype policy; None: the global one."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(before if policy is None else keras.dtype_policies.get(policy))
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)

"""Normalization across neighboring channels."""

import keras
import numpy as np
from keras import ops

from tfdml.layers.loss_layer import Layer
from tfdml.registry.arguments import Count, NotNegative, Positive


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

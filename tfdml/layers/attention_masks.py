"""Attention masks, one for each learner."""

import math
from typing import Annotated

import keras
from keras import ops

from tfdml.layers.loss_layer import Layer
from tfdml.layers.sliced import sliced
from tfdml.registry.arguments import Count, number


@keras.saving.register_keras_serializable(package="tfdml")
class AttentionMasks(Layer):
    """Computes a mask between 0 and 1 for each learner: `[B, h, w, c]` to `[B, K, h, w, channels]`.

    Each learner has a 1 x 1 convolution, A'_m of Attention-based Ensemble (Sec. 4), with its own Glorot initialization,
    followed by a sigmoid: the paper says that masks are from 0 to 1, not by what function.

    Args:
        learners: number K of masks.
        channels: number of channels of the masked features.
        initial: value around which masks begin, by the convolutions' biases.
    """

    learners: Count
    channels: Count
    initial: Annotated[float, number(above=0, below=1)] = 0.5

    def build(self, input_shape):
        shape = (input_shape[-1], self.learners * self.channels)
        initializer = sliced(keras.initializers.GlorotUniform, self.learners)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer=initializer)
        bias = keras.initializers.Constant(math.log(self.initial / (1 - self.initial)))
        self.bias = self.add_weight(name="bias", shape=shape[1:], initializer=bias)

    def call(self, features):
        masks = ops.sigmoid(ops.matmul(features, self.kernel) + self.bias)
        masks = ops.reshape(masks, (*ops.shape(features)[:3], self.learners, self.channels))
        return ops.transpose(masks, (0, 3, 1, 2, 4))

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.learners, *input_shape[1:3], self.channels)

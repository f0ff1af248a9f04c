"""Where each learner looks."""

import keras
from keras import ops

from tfdml.arguments import integer
from tfdml.layers.sliced import sliced
from tfdml.registry import register


@register("layer", "attention_masks", learners=integer(1), channels=integer(1))
class AttentionMasks(keras.layers.Layer):
    """A mask for each learner, between 0 and 1: `[B, h, w, c]` to `[B, K, h, w, channels]`.

    A convolution of 1 x 1 for each learner, A'_m of Attention-based Ensemble (Sec. 4), each initialised on its own as
    Glorot has it, and a sigmoid.

    Args:
        learners: number K of masks.
        channels: channels of the features that are masked.
    """

    def __init__(self, learners, channels, **kwargs):
        super().__init__(**kwargs)
        self.learners = learners
        self.channels = channels

    def build(self, input_shape):
        shape = (input_shape[-1], self.learners * self.channels)
        initializer = sliced(keras.initializers.GlorotUniform, self.learners)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer=initializer)
        self.bias = self.add_weight(name="bias", shape=shape[1:], initializer="zeros")

    def call(self, features):
        masks = ops.sigmoid(ops.matmul(features, self.kernel) + self.bias)
        masks = ops.reshape(masks, (*ops.shape(features)[:3], self.learners, self.channels))
        return ops.transpose(masks, (0, 3, 1, 2, 4))

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.learners, *input_shape[1:3], self.channels)

    def get_config(self):
        return {**super().get_config(), "learners": self.learners, "channels": self.channels}

"""Drop path, or stochastic depth: training leaves branches out at random."""

from typing import Annotated, Unpack

import keras
from keras import ops

from tfdml.registry.arguments import LayerArguments, number
from tfdml.registry.fields import Declared


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

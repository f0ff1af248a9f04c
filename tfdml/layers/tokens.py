"""Attention masks of learners, features of transformer tokens, and a regularizer that merges centers."""

import math
from typing import Annotated

import keras
from keras import ops

from tfdml.functional.distances import unit_length
from tfdml.layers.embedding import sliced
from tfdml.layers.loss_layer import Layer
from tfdml.registry.arguments import Count, NotNegative, TokenKind, integer, number
from tfdml.registry.fields import Declared


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


@keras.saving.register_keras_serializable(package="tfdml")
class TokenFeatures(Layer):
    """Makes one vector `[B, c]` of tokens `[B, tokens, c]`.

    Args:
        kind: `class`, the first token, which represents the whole image; `patches`, the mean of the tokens of patches;
            `both`, one beside the other, `[B, 2 c]`.
        prefix: number of tokens before those of patches: the first, and registers.
    """

    kind: TokenKind = "class"
    prefix: Annotated[int, integer(0)] = 1

    def check_arguments(self):
        if self.kind != "patches" and not self.prefix:
            raise ValueError(
                f"This transformer has no token of the whole image, which {self.kind!r} needs; take 'patches'."
            )

    def call(self, tokens):
        first, patches = tokens[:, 0], ops.mean(tokens[:, self.prefix :], axis=1)
        return {"class": first, "patches": patches}.get(self.kind, ops.concatenate([first, patches], axis=-1))

    def compute_output_shape(self, input_shape):
        return (input_shape[0], input_shape[-1] * (2 if self.kind == "both" else 1))


@keras.saving.register_keras_serializable(package="tfdml")
class CenterMerging(Declared, keras.regularizers.Regularizer):
    """Regularizer of `Proxies` that merges unnecessary centers of a class.

    `weight sum_c sum_{s < t} sqrt(2 - 2 w_cs . w_ct) / (C n (n - 1))` over the n centers w of each of C classes at unit
    length, a sum of distances of centers within a class. Qian et al., SoftTriple Loss: Deep Metric Learning Without
    Triplet Sampling, 2019. Two centers that coincide have a zero gradient.

    Args:
        per_class: n, two or more.
        weight: τ; 0.2 in the paper.
    """

    per_class: Annotated[int, integer(2)]
    weight: NotNegative = 0.2

    def __call__(self, proxies):
        proxies = ops.convert_to_tensor(proxies)
        units = ops.reshape(unit_length(proxies), (-1, self.per_class, proxies.shape[1]))
        squared = 2.0 - 2.0 * ops.matmul(units, ops.transpose(units, (0, 2, 1)))
        squared = squared * (1.0 - ops.eye(self.per_class, dtype=proxies.dtype))
        # Written so that NaN stays NaN.
        apart = ops.logical_not(squared <= 0.0)
        distances = ops.where(apart, ops.sqrt(ops.where(apart, squared, 1.0)), 0.0)
        # Every pair occurs twice.
        return self.weight * ops.sum(distances) / (2.0 * proxies.shape[0] * (self.per_class - 1))

    def get_config(self):
        return self.own_config()

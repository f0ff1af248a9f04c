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
    """Computes an attention mask between 0 and 1 for each learner of an ensemble.

    These are the masks of Attention-based Ensemble (Sec. 4). Each learner has a 1 × 1 convolution with its own Glorot
    initialization, A'_m in the paper, followed by a sigmoid. (The paper only specifies that masks are from 0 to 1.)
    `tfdml.methods.AttentionEnsemble` creates this layer for you.

    Args:
        learners: Integer. Number K of masks.
        channels: Integer. Number of channels of the features to mask.
        initial: Float between 0 and 1. Value of the masks at the start, which sets the biases. Defaults to `0.5`.
        activity_regularizer, trainable, dtype, autocast, name: see `keras.layers.Layer`.

    Call arguments:
        features: `[B, h, w, c]`.

    Returns:
        `[B, K, h, w, channels]`.

    Example:

    ```python
    masks = tfdml.layers.AttentionMasks(learners=3, channels=16)
    masks(np.ones((2, 7, 7, 32), "float32")).shape  # (2, 3, 7, 7, 16)
    ```
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
    """Reduces the tokens of a transformer to one feature vector per image.

    Args:
        kind: `"class"` uses the first token, which represents the whole image. `"patches"` averages the patch tokens.
            `"both"` concatenates the two. Defaults to `"class"`.
        prefix: Integer. Number of tokens before the patch tokens: the class token and registers. Defaults to `1`.
        activity_regularizer, trainable, dtype, autocast, name: see `keras.layers.Layer`.

    Call arguments:
        tokens: `[B, tokens, c]`.

    Returns:
        `[B, c]`, or `[B, 2 c]` with `kind="both"`.

    Raises:
        ValueError: If `kind` needs the class token and `prefix` is 0.

    Example:

    ```python
    tokens = np.array([[[1.0], [2.0], [4.0]]], "float32")
    tfdml.layers.TokenFeatures("both")(tokens)  # [[1, 3]]
    ```
    """

    kind: TokenKind = "class"
    prefix: Annotated[int, integer(0)] = 1

    def check_arguments(self):
        if self.kind != "patches" and not self.prefix:
            raise ValueError(
                f"This transformer has no token of the whole image, which {self.kind!r} needs. Use 'patches' instead."
            )

    def call(self, tokens):
        first, patches = tokens[:, 0], ops.mean(tokens[:, self.prefix :], axis=1)
        return {"class": first, "patches": patches}.get(self.kind, ops.concatenate([first, patches], axis=-1))

    def compute_output_shape(self, input_shape):
        return (input_shape[0], input_shape[-1] * (2 if self.kind == "both" else 1))


@keras.saving.register_keras_serializable(package="tfdml")
class CenterMerging(Declared, keras.regularizers.Regularizer):
    """Regularizer of `Proxies` that merges centers of a class that are not needed.

    Use it if classes have several centers and you do not know how many they need; `tfdml.losses.SoftTriple` uses it by
    default. The penalty is `weight sum_c sum_{s < t} sqrt(2 - 2 w_cs . w_ct) / (C n (n - 1))` over the n centers w of
    each of C classes, normalized to unit length. It is a weighted sum of the distances between centers of a class: Qian
    et al., SoftTriple Loss: Deep Metric Learning Without Triplet Sampling, 2019. Two centers that coincide have a
    gradient of 0.

    Args:
        per_class: Integer, at least 2. Number n of centers per class.
        weight: Float. The paper's τ. Larger values merge more centers. Defaults to `0.2`, as in the paper.

    Returns:
        A scalar.

    Example:

    ```python
    centers = np.array([[1, 0], [0, 1]], "float32")
    tfdml.layers.CenterMerging(per_class=2)(centers)  # 0.141
    ```
    """

    per_class: Annotated[int, integer(2)]
    weight: NotNegative = 0.2

    def __call__(self, proxies):
        proxies = ops.convert_to_tensor(proxies)
        units = ops.reshape(unit_length(proxies), (-1, self.per_class, proxies.shape[1]))
        squared = 2.0 - 2.0 * ops.matmul(units, ops.transpose(units, (0, 2, 1)))
        squared = squared * (1.0 - ops.eye(self.per_class, dtype=proxies.dtype))
        # The negated comparison keeps NaN as NaN.
        apart = ops.logical_not(squared <= 0.0)
        distances = ops.where(apart, ops.sqrt(ops.where(apart, squared, 1.0)), 0.0)
        # The matrix contains every pair twice.
        return self.weight * ops.sum(distances) / (2.0 * proxies.shape[0] * (self.per_class - 1))

    def get_config(self):
        return self.own_config()

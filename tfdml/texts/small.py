"""A small transformer over bytes, for training on a CPU."""

from typing import Annotated, Unpack

import keras
from keras import layers, ops

from tfdml.layers.loss_layer import Layer
from tfdml.registry import register
from tfdml.registry.arguments import Count, ModelArguments, integer
from tfdml.texts.tokenizers import BYTES, ByteTokenizer
from tfdml.texts.towers import TextTower

# Number of neighboring bytes that the first layer joins, about a syllable.
NEIGHBORS = 5


@register("text_tower", "small")
class SmallText(TextTower):
    """Small text tower that reads the bytes of a text, so it needs no vocabulary and no pretrained weights.

    Use it to train towers for images and texts from scratch, on a CPU. A convolution joins neighboring bytes, blocks of
    a transformer with normalization first compare all of them, and the features are their mean.

    Args:
        width: Integer. Number of features, a multiple of `heads`. Defaults to `128`.
        depth: Integer. Number of transformer blocks. Defaults to `2`.
        heads: Integer. Number of attention heads. Defaults to `4`.
        length: Integer. Number of bytes per text. Longer texts are cut. Defaults to `64`.
        **kwargs: `name`, `trainable` and `dtype` of `keras.Model`.

    Raises:
        ValueError: If `width` is not a multiple of `heads`.

    Example:

    ```python
    tower = tfdml.texts.SmallText(width=32)
    tower(tower.tokenizer(["a red van", "a blue bus"])).shape  # (2, 32)
    ```
    """

    def __init__(
        self,
        width: Count = 128,
        depth: Annotated[int, integer(0)] = 2,
        heads: Count = 4,
        length: Count = 64,
        **kwargs: Unpack[ModelArguments],
    ):
        if width % heads:
            raise ValueError(f"width must be a multiple of heads={heads}. Received: width={width}.")
        tokens = layers.Input((length,), dtype="int32", name="tokens")
        known = KnownTokens(name="known")(tokens)
        features = layers.Embedding(BYTES, width, name="bytes")(tokens)
        features = Positions(name="positions")(features)
        features = layers.Multiply(name="only_known")([features, layers.Reshape((length, 1), name="column")(known)])
        joined = layers.Conv1D(width, NEIGHBORS, padding="same", activation="gelu", name="neighbors")(features)
        features = layers.Add(name="joined")([features, joined])
        for number in range(1, depth + 1):
            features = _block(features, known, width, heads, f"block{number}")
        features = layers.LayerNormalization(epsilon=1e-6, name="norm")(features)
        output = MeanOfKnown(name="mean")([features, known])
        super().__init__(ByteTokenizer(length), tokens, output, **{"name": "small_text", **kwargs})
        self.width, self.depth, self.heads, self.length = width, depth, heads, length

    def get_config(self):
        own = {"width": self.width, "depth": self.depth, "heads": self.heads, "length": self.length}
        return {**super().get_config(), **own}


def _block(features, known, width, heads, name):
    """Applies a transformer block; attention only sees known tokens."""
    normed = layers.LayerNormalization(epsilon=1e-6, name=f"{name}_norm1")(features)
    attention = layers.MultiHeadAttention(heads, width // heads, name=f"{name}_attention")
    mask = layers.Reshape((1, known.shape[1]), name=f"{name}_mask")(known)
    features = layers.Add(name=f"{name}_add1")([features, attention(normed, normed, attention_mask=mask)])
    hidden = layers.LayerNormalization(epsilon=1e-6, name=f"{name}_norm2")(features)
    hidden = layers.Dense(4 * width, activation="gelu", name=f"{name}_dense1")(hidden)
    return layers.Add(name=f"{name}_add2")([features, layers.Dense(width, name=f"{name}_dense2")(hidden)])


@keras.saving.register_keras_serializable(package="tfdml")
class KnownTokens(Layer):
    """Marks tokens `[B, L]` that are not padding with 1, and padding, which is 0, with 0."""

    def call(self, tokens):
        return ops.cast(tokens > 0, self.compute_dtype)

    def compute_output_spec(self, tokens):
        return keras.KerasTensor(tokens.shape, self.compute_dtype)


@keras.saving.register_keras_serializable(package="tfdml")
class Positions(Layer):
    """Adds a learned vector for each position to features `[B, L, c]`."""

    def build(self, shape):
        self.positions = self.add_weight(name="positions", shape=shape[1:], initializer="random_normal")

    def call(self, features):
        return features + self.positions


@keras.saving.register_keras_serializable(package="tfdml")
class MeanOfKnown(Layer):
    """Computes the mean of features `[B, L, c]` over known tokens `[B, L]`, or zeros if there are none."""

    def call(self, inputs):
        features, known = inputs
        known = ops.cast(known, features.dtype)[:, :, None]
        return ops.sum(features * known, axis=1) / ops.maximum(ops.sum(known, axis=1), 1.0)

    def compute_output_shape(self, shapes):
        return (shapes[0][0], shapes[0][2])

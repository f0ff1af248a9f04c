"""Features of a transformer's tokens: that of the whole image, those of its patches, or both."""

from typing import Annotated

import keras
from keras import ops

from tfdml.layers.loss_layer import Layer
from tfdml.registry.arguments import TokenKind, integer


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

"""Features of a transformer's tokens: that of the whole image, those of its patches, or both."""

from typing import Annotated, Unpack

import keras
from keras import ops

from tfdml.registry.annotations import LayerArguments, TokenKind
from tfdml.registry.argument_checks import expects
from tfdml.registry.arguments import integer


@keras.saving.register_keras_serializable(package="tfdml")
@expects()
class TokenFeatures(keras.layers.Layer):
    """Makes one vector `[B, c]` of tokens `[B, tokens, c]`.

    Args:
        kind: `class`, the first token, which represents the whole image; `patches`, the mean of the tokens of patches;
            `both`, one beside the other, `[B, 2 c]`.
        prefix: number of tokens before those of patches: the first, and registers.
    """

    def __init__(
        self, kind: TokenKind = "class", prefix: Annotated[int, integer(0)] = 1, **kwargs: Unpack[LayerArguments]
    ):
        super().__init__(**kwargs)
        if kind != "patches" and not prefix:
            raise ValueError(f"This transformer has no token of the whole image, which {kind!r} needs; take 'patches'.")
        self.kind, self.prefix = kind, prefix

    def call(self, tokens):
        first, patches = tokens[:, 0], ops.mean(tokens[:, self.prefix :], axis=1)
        return {"class": first, "patches": patches}.get(self.kind, ops.concatenate([first, patches], axis=-1))

    def compute_output_shape(self, input_shape):
        return (input_shape[0], input_shape[-1] * (2 if self.kind == "both" else 1))

    def get_config(self):
        return {**super().get_config(), "kind": self.kind, "prefix": self.prefix}

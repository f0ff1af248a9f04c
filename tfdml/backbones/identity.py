"""No network, for heads on stored features."""

from typing import Unpack

import keras

from tfdml.backbones.backbone import Backbone
from tfdml.registry import register
from tfdml.registry.arguments import Count, ModelArguments


@register("backbone", "identity")
class Identity(Backbone):
    """No network: features that are stored, `[B, vector_dims]`, are passed on. For `--dataset="embeddings(...)"`.

    Args:
        vector_dims: number of dimensions. Default: those of the dataset.
    """

    # They are features of a network that knows something.
    pretrained = True

    def __init__(self, vector_dims: Count | None = None, **kwargs: Unpack[ModelArguments]):
        if vector_dims is None:
            raise ValueError(
                "The backbone identity requires vector_dims, because its inputs are vectors and not images. Expected "
                "their number of dimensions. Pass Identity(vector_dims=...). In a command, use another backbone, or "
                "--dataset=\"embeddings(path='...', test='...')\"."
            )
        vectors = keras.layers.Input((vector_dims,))
        kwargs = {"name": "identity", **kwargs}
        output = {"output": keras.layers.Identity()(vectors)}
        super().__init__(vectors, output, mean=(), std=(), image_size=1, **kwargs)
        self.vector_dims = vector_dims

    def get_config(self):
        return {**super().get_config(), "vector_dims": self.vector_dims}

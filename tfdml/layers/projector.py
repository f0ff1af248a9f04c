"""The projector of losses of views."""

from collections.abc import Sequence
from typing import Annotated

import keras

from tfdml.functional.checks import at_least_float32
from tfdml.layers.linear_layers import LinearLayers
from tfdml.registry.arguments import integer, several


@keras.saving.register_keras_serializable(package="tfdml")
class Projector(LinearLayers):
    """Projects embeddings for a loss of views: linear layers, between them batch norm and relu; `[B, 1, size]`.

    The loss learns from the projection, and the embedding before it is what one searches with. Batch norm always uses
    the batch, which is the global one, and so has no moving statistics. The axis of size 1 tells projections from
    embeddings.

    Example: `projected = Projector((1024, 1024))(embeddings)`.

    Args:
        sizes: units of each linear layer.
    """

    sizes: Annotated[Sequence[int], several(integer(1))]

    def layer_sizes(self, dim):
        del dim
        return self.sizes

    def call(self, embeddings, labels=None):
        del labels
        return self.project(at_least_float32(embeddings))[:, None]

    def compute_output_shape(self, embeddings_shape, labels_shape=None):
        return (embeddings_shape[0], 1, self.sizes[-1])

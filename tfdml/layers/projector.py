"""Layers between the embedding and a loss of views."""

from collections.abc import Sequence
from typing import Annotated, Unpack

import keras
from keras import ops

from tfdml.functional.checks import at_least_float32, loss_dtype
from tfdml.layers.loss_layer import LossLayer
from tfdml.registry.annotations import LayerArguments, Tensor
from tfdml.registry.argument_checks import expects
from tfdml.registry.arguments import integer, several

# Added to variances, as Keras' batch norm does.
EPSILON = 1e-3


@keras.saving.register_keras_serializable(package="tfdml")
@expects()
class Projector(LossLayer):
    """Projects embeddings for a loss of views: linear layers, between them batch norm and relu; `[B, 1, size]`.

    The loss learns from the projection, and the embedding before it is what one searches with. Batch norm always uses
    the batch, which is the global one, and so has no moving statistics. The axis of size 1 tells projections from
    embeddings.

    Example: `projected = Projector((1024, 1024))(embeddings)`.

    Args:
        sizes: units of each linear layer.
    """

    def __init__(self, sizes: Annotated[Sequence[int], several(integer(1))], **kwargs: Unpack[LayerArguments]):
        super().__init__(**kwargs)
        self.sizes = tuple(sizes)

    def build(self, embeddings_shape, labels_shape=None):
        sizes = (embeddings_shape[-1], *self.layer_sizes(embeddings_shape[-1]))
        self.kernels = [
            self._weight(f"kernel_{number}", shape, "glorot_uniform")
            for number, shape in enumerate(zip(sizes, sizes[1:], strict=False))
        ]
        self.scales = [self._weight(f"scale_{number}", (size,), "ones") for number, size in enumerate(sizes[1:-1])]
        self.biases = [self._weight(f"bias_{number}", (size,), "zeros") for number, size in enumerate(sizes[1:])]

    def layer_sizes(self, dim: int) -> Sequence[int]:
        """Units of each linear layer for embeddings of `dim` dimensions."""
        del dim
        return self.sizes

    def call(self, embeddings, labels=None):
        del labels
        return self.project(at_least_float32(embeddings))[:, None]

    def project(self, rows: Tensor) -> Tensor:
        """Returns the output of the last linear layer, `[B, size]`."""
        last = len(self.kernels) - 1
        for number, kernel in enumerate(self.kernels):
            rows = ops.matmul(rows, ops.cast(kernel, rows.dtype))
            bias = ops.cast(self.biases[number], rows.dtype)
            if number == last:
                return rows + bias
            rows = ops.relu(_normalized(rows) * ops.cast(self.scales[number], rows.dtype) + bias)

    def compute_output_shape(self, embeddings_shape, labels_shape=None):
        return (embeddings_shape[0], 1, self.layer_sizes(embeddings_shape[1])[-1])

    def get_config(self):
        return {**super().get_config(), "sizes": self.sizes}

    def _weight(self, name, shape, initializer):
        dtype = loss_dtype(self.variable_dtype)
        return self.add_weight(name=name, shape=shape, initializer=initializer, dtype=dtype, autocast=False)


def _normalized(rows):
    mean, variance = ops.mean(rows, axis=0), ops.var(rows, axis=0)
    return (rows - mean) * ops.rsqrt(variance + EPSILON)

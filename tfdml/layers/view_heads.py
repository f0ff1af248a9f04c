"""The predictors and projectors of losses on views, and the linear layers that they share."""

from collections.abc import Sequence
from typing import Annotated

import keras
from keras import ops

from tfdml.functional.checks import at_least_float32, loss_dtype
from tfdml.layers.loss_layer import LossLayer
from tfdml.registry.arguments import Count, Tensor, integer, several

# Added to variances, as Keras' batch norm does.
EPSILON = 1e-3


class LinearLayers(LossLayer):
    """Base of layers of a loss that are linear layers, with batch norm and relu between them.

    Batch norm always uses the batch, which is the global one, and so has no moving statistics.
    """

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
        raise NotImplementedError

    def project(self, rows: Tensor) -> Tensor:
        """Returns the output of the last linear layer, `[B, size]`."""
        last = len(self.kernels) - 1
        for number, kernel in enumerate(self.kernels):
            rows = ops.matmul(rows, ops.cast(kernel, rows.dtype))
            bias = ops.cast(self.biases[number], rows.dtype)
            if number == last:
                return rows + bias
            mean, variance = ops.mean(rows, axis=0), ops.var(rows, axis=0)
            normalized = (rows - mean) * ops.rsqrt(variance + EPSILON)
            rows = ops.relu(normalized * ops.cast(self.scales[number], rows.dtype) + bias)

    def _weight(self, name, shape, initializer):
        dtype = loss_dtype(self.variable_dtype)
        return self.add_weight(name=name, shape=shape, initializer=initializer, dtype=dtype, autocast=False)


@keras.saving.register_keras_serializable(package="tfdml")
class Predictor(LinearLayers):
    """Predicts the embedding of another view, by a hidden layer: predictions and embeddings, `[B, 2, d]`.

    Example: `taken = Predictor()(embeddings)`.

    Args:
        hidden: units of the hidden layer; None: a quarter of d.
    """

    hidden: Count | None = None

    def layer_sizes(self, dim):
        return (self.hidden or max(dim // 4, 1), dim)

    def call(self, embeddings, labels=None):
        del labels
        embeddings = at_least_float32(embeddings)
        return ops.stack([self.project(embeddings), embeddings], axis=1)

    def compute_output_shape(self, embeddings_shape, labels_shape=None):
        return (embeddings_shape[0], 2, embeddings_shape[1])


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

"""Predictors and projectors of self-supervised losses."""

from collections.abc import Sequence
from typing import Annotated

import keras
from keras import ops

from tfdml.functional.checks import at_least_float32, loss_dtype
from tfdml.layers.loss_layer import LossLayer
from tfdml.registry.arguments import Count, Tensor, integer, several

# Added to variances, with the default of Keras' batch norm.
EPSILON = 1e-3


class LinearLayers(LossLayer):
    """Base of loss layers that apply several linear layers, with batch norm and ReLU between them.

    Batch norm always uses the statistics of the global batch, so it has no moving statistics.

    Args:
        activity_regularizer, trainable, dtype, autocast, name: see `LossLayer`.
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
        """Returns the units of each linear layer for embeddings with `dim` dimensions."""
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
    """Predicts the embedding of another view of an image with one hidden layer, the input of `tfdml.losses.SimSiam`.

    `SimSiam().make_layer()` creates this layer. The hidden layer is followed by batch norm and ReLU. Batch norm always
    uses the statistics of the global batch.

    Args:
        hidden: Integer or `None`. Units of the hidden layer. If `None`, a quarter of the embedding's dimensions.
            Defaults to `None`.
        activity_regularizer, trainable, dtype, autocast, name: see `LossLayer`.

    Call arguments:
        embeddings: `[B, d]`.
        labels: Not used.

    Returns:
        `[B, 2, d]`: for each row, the prediction and the embedding.

    Example:

    ```python
    tfdml.layers.Predictor()(np.ones((4, 8), "float32")).shape  # (4, 2, 8)
    ```
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
    """Projects embeddings for a self-supervised loss with linear layers, and batch norm and ReLU between them.

    The loss is computed from the projection; search with the embedding before it. `tfdml.losses.BarlowTwins` and
    `tfdml.losses.VICReg` create this layer with `make_layer()`. Batch norm always uses the statistics of the global
    batch.

    Args:
        sizes: Sequence of integers. Units of each linear layer.
        activity_regularizer, trainable, dtype, autocast, name: see `LossLayer`.

    Call arguments:
        embeddings: `[B, d]`.
        labels: Not used.

    Returns:
        `[B, 1, sizes[-1]]`. The axis of size 1 distinguishes projections from embeddings.

    Example:

    ```python
    tfdml.layers.Projector((16, 16))(np.ones((4, 8), "float32")).shape  # (4, 1, 16)
    ```
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

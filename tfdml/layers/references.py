"""Layer that joins embeddings with reference vectors, which another network has computed for the same images."""

from collections.abc import Mapping
from typing import Literal

import keras
from keras import ops

from tfdml.functional.checks import at_least_float32, loss_dtype
from tfdml.layers.loss_layer import LossLayer
from tfdml.registry.arguments import Count
from tfdml.registry.loss_hooks import ANCHOR, INITIAL


@keras.saving.register_keras_serializable(package="tfdml")
class BesideReference(LossLayer):
    """Joins each embedding, or a learned projection of it, with the reference vector of the same image.

    It is the layer of `tfdml.losses.Teacher` and `tfdml.losses.TowardInitial`.

    Args:
        reference: Which reference vectors to use: `"teacher"` or `"initial"`.
        dims: Integer or `None`. Number of dimensions of the reference vectors. If `None`, they have as many as the
            embeddings. Defaults to `None`.
        projection: Boolean. Whether a learned linear layer maps embeddings to `dims` dimensions. Defaults to `False`.
        activity_regularizer, trainable, dtype, autocast, name: see `LossLayer`.

    Call arguments:
        embeddings: `[B, d]`.
        labels: Not used.
        references: Dictionary from the name of reference vectors to vectors `[B, dims]`. If `None`, they are zeros. If
            it has embeddings `[B, d]` of other images as `"anchor"`, they replace the embeddings for `"initial"`.

    Returns:
        `[B, dims + dims]` with a projection, otherwise `[B, d + dims]`: the embedding and the reference vector.

    Example:

    ```python
    layer = tfdml.layers.BesideReference("teacher", dims=6, projection=True)
    layer.build((None, 2))
    layer(np.ones((4, 2), "float32"), None, {"teacher": np.ones((4, 6), "float32")}).shape  # (4, 12)
    ```
    """

    reference: Literal["teacher", "initial"]
    dims: Count | None = None
    projection: bool = False

    @property
    def references(self):
        """The name of the reference vectors, in a tuple."""
        return (self.reference,)

    def build(self, embeddings_shape, labels_shape=None, references_shape=None):
        self.kernel = None
        if self.projection:
            shape, dtype = (embeddings_shape[-1], self.dims), loss_dtype(self.variable_dtype)
            # It starts as a rotation, which keeps the similarities of embeddings.
            self.kernel = self.add_weight(
                name="projection", shape=shape, initializer="orthogonal", dtype=dtype, autocast=False
            )

    def call(self, embeddings, labels=None, references: Mapping | None = None):
        del labels
        embeddings = at_least_float32(ops.convert_to_tensor(embeddings))
        dims = self.dims or embeddings.shape[1]
        if references is None:
            vectors = ops.zeros((ops.shape(embeddings)[0], dims), embeddings.dtype)
        else:
            vectors = ops.cast(references[self.reference], embeddings.dtype)
            embeddings = references.get(ANCHOR, embeddings) if self.reference == INITIAL else embeddings
        if vectors.shape[1] != dims:
            raise ValueError(
                f"Each image needs a vector of {dims} dimensions as the target {self.reference!r}. Received: vectors "
                f"of {vectors.shape[1]} dimensions."
            )
        if self.kernel is not None:
            embeddings = ops.matmul(embeddings, ops.cast(self.kernel, embeddings.dtype))
        return ops.concatenate([embeddings, vectors], axis=1)

    def compute_output_shape(self, embeddings_shape, labels_shape=None, references_shape=None):
        dims = self.dims or embeddings_shape[1]
        return (embeddings_shape[0], dims + (dims if self.projection else embeddings_shape[1]))

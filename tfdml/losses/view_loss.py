"""Base of losses of views."""

from collections.abc import Sequence
from typing import Annotated

from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.losses.embedding_loss import EmbeddingLoss
from tfdml.registry.arguments import Tensor, integer, several

# Units of the linear layers of a projector.
Projected = Annotated[Sequence[int], several(integer(1), at_least=0)]


class ViewLoss(EmbeddingLoss):
    """Base of losses that compare the views of an image, and no others: rows of one label, the number of the image.

    The papers' pairs (z, z') are each row with each other view of its image; a pair stands in both orders, except in
    `BarlowTwins`. With one class an image, all images of a class are views.

    The loss takes what its layer gives, a projection of the embedding, which only training needs. The models of
    `tfdml.methods` make the layer themselves; in plain Keras the model that is trained ends with it,
    `outputs = loss.make_layer()(embeddings)`.

    Args:
        reduction, name, dtype: see `EmbeddingLoss`.
    """

    has_statistics = False
    refuses_memory = "it takes statistics of a batch, and no pairs of it"

    # Rows that the layer gives for each row of embeddings.
    rows_each = 1

    def check_input(self, labels, embeddings):
        embeddings, layer = ops.convert_to_tensor(embeddings), self.make_layer()
        if layer is None:
            return super().check_input(labels, embeddings)
        if len(embeddings.shape) != 3 or embeddings.shape[1] != self.rows_each:
            name = type(self).__name__
            raise ValueError(
                f"{name} takes what its layer {type(layer).__name__} gives: expected shape [batch, {self.rows_each}, "
                f"dim], received shape {tuple(embeddings.shape)}. The model that is trained has to end with it: "
                f"keras.Model(inputs, loss.make_layer()(embeddings)), where `loss` is this {name}."
            )
        labels, _ = check_pairs_input(labels, embeddings[:, 0])
        return labels, embeddings

    def statistics(self, labels: Tensor, embeddings: Tensor) -> dict[str, Tensor]:
        """Nothing: a loss of views costs something wherever there are two."""
        del labels, embeddings
        return {}


def projections(labels, embeddings):
    """Returns labels, and projections `[B, d]` at least in float32, of what `call` takes: `[B, 1, d]` or `[B, d]`."""
    embeddings = ops.convert_to_tensor(embeddings)
    return check_pairs_input(labels, embeddings[:, 0] if len(embeddings.shape) == 3 else embeddings)

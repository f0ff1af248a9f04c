"""Barlow Twins."""

from dataclasses import KW_ONLY

from keras import ops

from tfdml.functional.distances import unit_length
from tfdml.functional.partners import centered, partner_weights
from tfdml.layers.projector import Projector
from tfdml.losses.loss_function import function_of
from tfdml.losses.view_loss import Projected, ViewLoss, projections
from tfdml.registry import register
from tfdml.registry.arguments import NotNegative


@register("loss", "barlow_twins")
class BarlowTwins(ViewLoss):
    """Barlow Twins: the correlation of two views is 1 in each dimension, and 0 between dimensions.

    `sum_i (1 - C_ii)^2 + weight sum_i sum_j!=i C_ij^2`, C being the correlation over the batch of dimension i of a view
    with dimension j of another one: equations (1) and (2) of Zbontar et al., Barlow Twins: Self-Supervised Learning
    via Redundancy Reduction, 2021. Their projector has three layers of 8192 units.

    Example: `model.compile(optimizer="adam", loss=tfdml.losses.BarlowTwins())`, with batches of `tfdml.data.views`.

    Args:
        weight: of the correlations between dimensions.
        projector: units of the linear layers between embedding and loss, see `tfdml.layers.Projector`; with `()` the
            loss takes the embeddings.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` the number of the image of each view.
        embeddings: `[B, 1, d]` projections, which the layer `Projector` gives; or `[B, d]`.

    Returns:
        `[B]`, the same for all rows; 0 for the only view of an image, which C leaves out.
    """

    weight: NotNegative = 0.005
    _: KW_ONLY
    projector: Projected = (1024, 1024)

    def make_layer(self) -> Projector | None:
        return Projector(self.projector) if self.projector else None

    def call(self, labels, embeddings):
        labels, rows = projections(labels, embeddings)
        weights, counts = partner_weights(labels, rows.dtype)
        # Columns of length 1 over the batch, by which the equation divides.
        columns = unit_length(ops.transpose(centered(rows, counts)[0]))
        correlation = ops.matmul(columns, ops.matmul(weights, ops.transpose(columns)))
        diagonal = ops.diagonal(correlation)
        between = ops.sum(ops.square(correlation)) - ops.sum(ops.square(diagonal))
        value = ops.sum(ops.square(1.0 - diagonal)) + self.weight * between
        return ops.where(counts, value, 0.0)


barlow_twins_loss = function_of(BarlowTwins, "barlow_twins_loss")

"""Barlow Twins."""

from keras import ops

from tfdml.functional.distances import unit_length
from tfdml.functional.pairs import positive_pairs
from tfdml.losses.base import ProjectedLoss
from tfdml.registry import register
from tfdml.registry.arguments import NotNegative


@register("loss", "barlow_twins")
class BarlowTwins(ProjectedLoss):
    """Barlow Twins: the correlation of two views is 1 in each dimension, and 0 between dimensions.

    `sum_i (1 - C_ii)^2 + weight sum_i sum_j!=i C_ij^2`, C being the correlation over the batch of dimension i of a view
    with dimension j of another one: equations (1) and (2) of Zbontar et al., Barlow Twins: Self-Supervised Learning
    via Redundancy Reduction, 2021. Of two views of an image, the one that comes first in the batch is the paper's A and
    the other its B, as in batches of `tfdml.data.views`; of more views, this holds for each pair. Their projector has
    three layers of 8192 units.

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

    def call(self, labels, embeddings):
        labels, rows = self.projections(labels, embeddings)
        # The diagonal is 0: no row is a view of itself.
        pairs = ops.triu(ops.cast(positive_pairs(labels), rows.dtype))
        first, second = ops.sum(pairs, axis=1), ops.sum(pairs, axis=0)
        # Columns have length 1 over the pairs, by which the equation divides.
        weights = pairs / ops.sqrt(ops.maximum(first[:, None] * second, 1.0))
        one, other = (unit_length(ops.transpose(_weighted(rows, times))) for times in (first, second))
        correlation = ops.matmul(one, ops.matmul(weights, ops.transpose(other)))
        diagonal = ops.diagonal(correlation)
        between = ops.sum(ops.square(correlation)) - ops.sum(ops.square(diagonal))
        value = ops.sum(ops.square(1.0 - diagonal)) + self.weight * between
        return ops.where(first + second > 0.0, value, 0.0)


def _weighted(rows, times):
    """Returns rows `[B, d]` minus their mean over pairs, times the root of how many pairs have each."""
    mean = ops.sum(times[:, None] * rows, axis=0) / ops.maximum(ops.sum(times), 1.0)
    return ops.sqrt(times)[:, None] * (rows - mean)

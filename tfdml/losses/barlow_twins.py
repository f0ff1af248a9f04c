"""Barlow Twins."""

from keras import ops

from tfdml.functional.distances import unit_length
from tfdml.functional.pairs import positive_pairs
from tfdml.losses.base import ProjectedLoss
from tfdml.registry import register
from tfdml.registry.arguments import NotNegative


@register("loss", "barlow_twins")
class BarlowTwins(ProjectedLoss):
    """Computes the Barlow Twins loss: two views correlate in each dimension, and different dimensions do not.

    The loss is `sum_i (1 - C_ii)^2 + weight sum_i sum_j!=i C_ij^2`, where C is the correlation over the batch of
    dimension i of one view with dimension j of another view: equations (1) and (2) of Zbontar et al., Barlow Twins:
    Self-Supervised Learning via Redundancy Reduction, 2021. For two views of an image, the view that comes first in the
    batch is the paper's A and the other one its B, as in batches of `tfdml.data.views`. With more views, this holds for
    each pair. The paper's projector has three layers of 8192 units.

    Use this loss for images without labels, with batches of `tfdml.data.views`. The model that you train ends with its
    layer, `loss.make_layer()(embeddings)`; the models of `tfdml.methods` create it.

    Args:
        weight: Float. Weight of the correlations between dimensions. Larger values decorrelate them more. Defaults to
            `0.005`.
        projector: Sequence of integers. Units of the linear layers between embedding and loss; see
            `tfdml.layers.Projector`. With `()`, the loss receives the embeddings themselves. Defaults to
            `(1024, 1024)`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` the number of the image of each view.
        embeddings: `[B, 1, d]` projections, the output of the layer `Projector`; or `[B, d]` with `projector=()`.

    Returns:
        `[B]`, the same value for all rows. If a row is the only view of its image, C leaves it out and its value is 0.

    Example:

    ```python
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    tfdml.losses.BarlowTwins(projector=())(np.array([0, 0, 1, 1]), embeddings)  # 0.01
    ```
    """

    weight: NotNegative = 0.005

    def call(self, labels, embeddings):
        labels, rows = self.projections(labels, embeddings)
        # The diagonal is 0, because no row is a view of itself.
        pairs = ops.triu(ops.cast(positive_pairs(labels), rows.dtype))
        first, second = ops.sum(pairs, axis=1), ops.sum(pairs, axis=0)
        # Columns are normalized over the pairs, which is the division in the equation.
        weights = pairs / ops.sqrt(ops.maximum(first[:, None] * second, 1.0))
        one, other = (unit_length(ops.transpose(_weighted(rows, times))) for times in (first, second))
        correlation = ops.matmul(one, ops.matmul(weights, ops.transpose(other)))
        diagonal = ops.diagonal(correlation)
        between = ops.sum(ops.square(correlation)) - ops.sum(ops.square(diagonal))
        value = ops.sum(ops.square(1.0 - diagonal)) + self.weight * between
        return ops.where(first + second > 0.0, value, 0.0)


def _weighted(rows, times):
    """Returns rows `[B, d]` minus their mean over pairs, times the square root of each row's number of pairs."""
    mean = ops.sum(times[:, None] * rows, axis=0) / ops.maximum(ops.sum(times), 1.0)
    return ops.sqrt(times)[:, None] * (rows - mean)

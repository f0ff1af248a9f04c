"""VICReg."""

from keras import ops

from tfdml.functional.distances import squared_distances
from tfdml.functional.pairs import centered, partner_weights
from tfdml.losses.base import ProjectedLoss
from tfdml.registry import register
from tfdml.registry.arguments import NotNegative

# Of equation (2), added to variances.
EPSILON = 1e-4


@register("loss", "vicreg")
class VICReg(ProjectedLoss):
    """VICReg: views of an image agree, each dimension varies over the batch, and dimensions do not vary together.

    `invariance s + variance (v + v') + covariance (c + c')`, equation (6) of Bardes et al., VICReg:
    Variance-Invariance-Covariance Regularization, 2022. s is the squared distance of two views, a mean over dimensions
    as in the paper's Algorithm 1, where equation (5) has the sum. v of the first views and v' of the others are
    equation (1), the mean over dimensions of `max(0, target - S)`, S being the standard deviation over the batch; c and
    c' equation (4), the sum of squared covariances between dimensions, divided by d. Pairs stand in both orders here,
    so that v' is v, and c' is c. Their projector has three layers of 8192 units.

    Example: `model.compile(optimizer="adam", loss=tfdml.losses.VICReg())`, with batches of `tfdml.data.views`.

    Args:
        invariance, variance, covariance: weights of the terms, in the paper λ, μ and ν.
        target: standard deviation from which a dimension costs nothing, in the paper γ.
        projector: units of the linear layers between embedding and loss, see `tfdml.layers.Projector`; with `()` the
            loss takes the embeddings.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` the number of the image of each view.
        embeddings: `[B, 1, d]` projections, which the layer `Projector` gives; or `[B, d]`.

    Returns:
        `[B]`, of which s is each row's; 0 for the only view of an image, which the others leave out.
    """

    invariance: NotNegative = 25.0
    variance: NotNegative = 25.0
    covariance: NotNegative = 1.0
    target: NotNegative = 1.0

    def call(self, labels, embeddings):
        labels, rows = self.projections(labels, embeddings)
        weights, counts = partner_weights(labels, rows.dtype)
        distance = ops.sum(weights * squared_distances(rows), axis=1) / rows.shape[1]
        middle, number = centered(rows, counts)
        covariance = ops.matmul(ops.transpose(middle), middle) / ops.maximum(number - 1.0, 1.0)
        variances = ops.diagonal(covariance)
        v = ops.mean(ops.maximum(self.target - ops.sqrt(variances + EPSILON), 0.0))
        c = (ops.sum(ops.square(covariance)) - ops.sum(ops.square(variances))) / rows.shape[1]
        of_batch = 2.0 * (self.variance * v + self.covariance * c)
        return ops.where(counts, self.invariance * distance + of_batch, 0.0)

"""VICReg."""

from keras import ops

from tfdml.functional.distances import squared_distances
from tfdml.functional.pairs import centered, partner_weights
from tfdml.losses.base import ProjectedLoss
from tfdml.registry import register
from tfdml.registry.arguments import NotNegative

# The epsilon of equation (2), which is added to variances.
EPSILON = 1e-4


@register("loss", "vicreg")
class VICReg(ProjectedLoss):
    """Computes the VICReg loss: views agree, each dimension varies, and dimensions do not vary together.

    The loss is `invariance s + variance (v + v') + covariance (c + c')`, equation (6) of Bardes et al., VICReg:
    Variance-Invariance-Covariance Regularization, 2022:

    - s is the squared distance of two views, a mean over dimensions as in the paper's Algorithm 1, whereas equation (5)
      has the sum.
    - v of the first views and v' of the others are equation (1), the mean over dimensions of `max(0, target - S)`,
      where S is the standard deviation over the batch.
    - c and c' are equation (4), the sum of squared covariances between dimensions, divided by d.

    Each pair counts in both orders here, so that v' is v, and c' is c. The paper's projector has three layers of 8192
    units.

    Use this loss for images without labels, with batches of `tfdml.data.views`. The model that you train ends with its
    layer, `loss.make_layer()(embeddings)`; the models of `tfdml.methods` create it.

    Args:
        invariance: Float. Weight of s, in the paper λ. Defaults to `25.0`.
        variance: Float. Weight of v and v', in the paper μ. Defaults to `25.0`.
        covariance: Float. Weight of c and c', in the paper ν. Defaults to `1.0`.
        target: Float. Standard deviation from which a dimension costs nothing, in the paper γ. Defaults to `1.0`.
        projector: see `BarlowTwins`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` the number of the image of each view.
        embeddings: `[B, 1, d]` projections, the output of the layer `Projector`; or `[B, d]` with `projector=()`.

    Returns:
        `[B]`, one value per row. s is the row's own; v and c are the same for all rows. If a row is the only view of
        its image, v and c leave it out and its value is 0.

    Example:

    ```python
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    tfdml.losses.VICReg(projector=())(np.array([0, 0, 1, 1]), embeddings)  # 33.443
    ```
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

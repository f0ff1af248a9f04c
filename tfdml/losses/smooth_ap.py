"""SmoothAP loss."""

from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import cosines
from tfdml.functional.pairs import negative_pairs, other_rows, positive_pairs
from tfdml.functional.statistics import smooth_ap_loss_and_slopes
from tfdml.losses.base import EmbeddingLoss
from tfdml.registry import register
from tfdml.registry.arguments import Positive


@register("loss", "smooth_ap")
class SmoothAP(EmbeddingLoss):
    """Computes the SmoothAP loss: 1 minus average precision, made differentiable by sigmoids.

    Each image ranks the other images of the batch by similarity, and its positives should come first. The loss of an
    anchor is 1 minus its average precision, with ranks that are sums of sigmoids:
    `1 - mean_i (1 + sum_p g_pi) / (1 + sum_p g_pi + sum_n g_ni)` with `g_ji = sigmoid((s_j - s_i) / temperature)`,
    where s are cosines to the anchor and g_ji is how far row j is ahead of row i in the anchor's ranking. i are the
    anchor's positives, p its other positives, and n its negatives. It is from Brown et al., Smooth-AP: Smoothing the
    Path Towards Large-Scale Image Retrieval, 2020.

    Use this loss for ranking, for example if classes have few rows in a batch. Use batches with several images of each
    of several classes, for example from `tfdml.data.pxk`. Memory grows with the square of the batch size; time grows
    with its square times the size of its largest class.

    Args:
        temperature: Float. τ, the width of the sigmoids. Lower values are closer to average precision, but fewer pairs
            have a gradient. Defaults to `0.01`.
        include_query: Boolean. Whether the anchor itself is among its positives, as in the authors' code. It is then
            first in its own ranking, which makes the loss smaller. Defaults to `False`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels.
        embeddings: `[B, d]` of any length.
        queries: Integer or `None`. Number of anchors, which are the first rows. If `None`, every row is an anchor.

    Returns:
        `[B]`, one loss per anchor. Anchors without a positive or without a negative have a loss of 0.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    tfdml.losses.SmoothAP(temperature=0.01)(labels, embeddings)  # 0.25
    ```
    """

    temperature: Positive = 0.01
    include_query: bool = False

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        scores = cosines(embeddings, queries) / self.temperature
        others, negatives = positive_pairs(labels, queries), negative_pairs(labels, queries)
        itself = ops.logical_not(other_rows(labels, queries))
        found = ops.logical_or(others, itself) if self.include_query else others
        found = ops.logical_and(found, ops.any(others, axis=1, keepdims=True))
        values, slopes = smooth_ap_loss_and_slopes(ops.stop_gradient(scores), found, negatives)
        # The added term is 0 and has the slopes as its gradient.
        change = scores - ops.stop_gradient(scores)
        return ops.stop_gradient(values) + ops.sum(ops.stop_gradient(slopes) * change, axis=1)

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
    """SmoothAP: the average precision of each image's ranking of the others, made differentiable by sigmoids.

    The loss of an anchor is 1 minus its average precision, whose ranks are sums of sigmoids,
    `1 - mean_i (1 + sum_p g_pi) / (1 + sum_p g_pi + sum_n g_ni)` with `g_ji = sigmoid((s_j - s_i) / temperature)`, s
    being cosines to the anchor: how far row j is before row i in the anchor's ranking. i are the anchor's positives, p
    its other positives, n its negatives. Brown et al., Smooth-AP: Smoothing the Path Towards Large-Scale Image
    Retrieval, 2020.

    Memory grows with the square of the batch; time with its square times the size of its largest class.

    Example: `model.compile(optimizer="adam", loss=tfdml.losses.SmoothAP(temperature=0.01))`.

    Args:
        temperature: τ, the width of the sigmoids; lower is nearer to average precision, with fewer gradients.
        include_query: whether the anchor itself is among its positives, as in the authors' code: first in its own
            ranking, which makes the loss smaller.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` class numbers.
        embeddings: `[B, d]` of any length.
        queries: number of anchors, which are the first rows; None: every row is one.

    Returns:
        `[B]`; 0 for an anchor without a positive or without a negative.
    """

    temperature: Positive = 0.01
    include_query: bool = False

    takes_queries = True

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        scores = cosines(embeddings, queries) / self.temperature
        others, negatives = positive_pairs(labels, queries), negative_pairs(labels, queries)
        itself = ops.logical_not(other_rows(labels, queries))
        found = ops.logical_or(others, itself) if self.include_query else others
        found = ops.logical_and(found, ops.any(others, axis=1, keepdims=True))
        values, slopes = smooth_ap_loss_and_slopes(ops.stop_gradient(scores), found, negatives)
        # The values, and the slopes as their gradient. What is added is 0.
        change = scores - ops.stop_gradient(scores)
        return ops.stop_gradient(values) + ops.sum(ops.stop_gradient(slopes) * change, axis=1)

"""Angular loss."""

import math
from typing import Annotated

from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import cosines
from tfdml.losses.base import AllPairsLoss
from tfdml.registry import register
from tfdml.registry.arguments import number


@register("loss", "angular")
class Angular(AllPairsLoss):
    """Computes the angular loss, which bounds the angle at which a negative sees a positive pair.

    The loss of an anchor is the mean over its positives p of `log(1 + sum_n exp(f_apn))`, where n are its negatives and
    `f_apn = 4 tan^2(alpha) (x_a + x_p) x_n - 2 (1 + tan^2(alpha)) x_a x_p` with embeddings of unit length. It is from
    Wang et al., Deep Metric Learning with Angular Loss, 2017. Consider the triangle of n, the midpoint of a and p, and
    a point as far from that midpoint as a: the loss bounds the angle at n by alpha.

    Use this loss to compare with the papers. Use batches with several images of each of several classes, for example
    from `tfdml.data.pxk`.

    Args:
        alpha: Float above 0 and at most 60. Bound of the angle in degrees. The smallest angle of a triangle is never
            above 60. Larger values allow wider angles. Defaults to `45.0`.
        mining, mean: see `AllPairsLoss`. Terms are positive pairs. Defaults to `"all"` and `"anchors"`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels.
        embeddings: `[B, d]` of any length.

    Returns:
        `[B]`, one loss per anchor. Anchors without a positive or without a negative have a loss of 0.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    tfdml.losses.Angular(alpha=45.0)(labels, embeddings)  # 3.107
    ```
    """

    alpha: Annotated[float, number(above=0, at_most=60, noun="angle in degrees")] = 45.0

    def call(self, labels, embeddings):
        labels, embeddings = check_pairs_input(labels, embeddings)
        similarity = cosines(embeddings)
        positives, negatives = self.selected(labels, embeddings, 1.0 - similarity)
        tangent = math.tan(math.radians(self.alpha)) ** 2
        pairs = ops.logical_and(positives, ops.any(negatives, axis=1)[:, None])
        sums = _log_sum_of_products(similarity, 4.0 * tangent, negatives, pairs)
        exponents = sums - 2.0 * (1.0 + tangent) * similarity
        return self.of_pairs(ops.softplus(exponents), pairs)


def _log_sum_of_products(similarity, scale, negatives, pairs):
    """Computes `log sum_n exp(scale (s_an + s_pn))` `[B, B]` for pairs (a, p), over the negatives n of a.

    The sum is a matrix product, so that triplets are never stored.
    """
    among = ops.where(negatives, similarity, -math.inf)
    highest = ops.stop_gradient(ops.max(among, axis=1, keepdims=True))
    # The highest value is minus infinity for an anchor without a negative.
    highest = ops.where(highest == -math.inf, 0.0, highest)
    nearest = ops.stop_gradient(ops.max(similarity, axis=1, keepdims=True))
    # These shifts keep each entry above exp(-24), because alpha is at most 60, and one entry of each anchor is 1.
    of_anchors, of_positives = ops.exp(scale * (among - highest)), ops.exp(scale * (similarity - nearest))
    sums = ops.matmul(of_anchors, ops.transpose(of_positives))
    return ops.log(ops.where(pairs, sums, 1.0)) + scale * highest + ops.transpose(scale * nearest)

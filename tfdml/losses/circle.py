"""Circle loss."""

from typing import Annotated

from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import cosines
from tfdml.functional.pairs import log_sum_exp
from tfdml.losses.base import AllPairsLoss
from tfdml.registry import register
from tfdml.registry.arguments import Positive, number


@register("loss", "circle")
class Circle(AllPairsLoss):
    """Computes the circle loss, which weights each pair by how far its cosine is from the optimum.

    With cosines s of an anchor to its positives p and negatives n, its loss is `log(1 + sum_n exp(scale a_n (s_n -
    margin)) sum_p exp(-scale a_p (s_p - 1 + margin)))` with the weights `a_n = max(0, s_n + margin)` and
    `a_p = max(0, 1 + margin - s_p)`. It is equation (6) of Sun et al., Circle Loss: A Unified Perspective of Pair
    Similarity Optimization, 2020, for pairs.

    Use batches with several images of each of several classes, for example from `tfdml.data.pxk`. The defaults are the
    paper's for retrieval. For faces, it uses `margin=0.25` and `scale=256.0`.

    Args:
        margin: Float from -1 to 1. The relaxation m: positives are drawn to a cosine of `1 - margin`, negatives to
            `margin`. Larger values make the loss easier to satisfy. Defaults to `0.4`.
        scale: Float. Factor γ of the exponents. With larger values, the hardest pairs dominate. Defaults to `80.0`.
        differentiate_weights: Boolean. Whether gradients flow through the weights, which are constants in the paper's
            gradients. Defaults to `False`.
        mining, mean: see `AllPairsLoss`. Terms are anchors. Defaults to `"all"` and `"anchors"`.
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
    tfdml.losses.Circle(margin=0.4, scale=8.0)(labels, embeddings)  # 3.125
    ```
    """

    margin: Annotated[float, number(at_least=-1, at_most=1)] = 0.4
    scale: Positive = 80.0
    differentiate_weights: bool = False

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        similarity = cosines(embeddings, queries)
        positives, negatives = self.selected(labels, embeddings, 1.0 - similarity, queries)
        positive_weights = ops.maximum(1.0 + self.margin - similarity, 0.0)
        negative_weights = ops.maximum(similarity + self.margin, 0.0)
        if not self.differentiate_weights:
            positive_weights = ops.stop_gradient(positive_weights)
            negative_weights = ops.stop_gradient(negative_weights)
        pull = log_sum_exp(positives, -self.scale * positive_weights * (similarity - 1.0 + self.margin))
        push = log_sum_exp(negatives, self.scale * negative_weights * (similarity - self.margin))
        has_both = ops.logical_and(ops.any(positives, axis=1), ops.any(negatives, axis=1))
        return self.of_anchors(ops.softplus(pull + push), has_both)

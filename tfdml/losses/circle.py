"""Circle loss."""

from typing import Annotated

from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import cosines
from tfdml.functional.pairs import log_sum_exp, negative_pairs, positive_pairs
from tfdml.losses.base import EmbeddingLoss
from tfdml.registry import register
from tfdml.registry.arguments import Positive, number


@register("loss", "circle")
class Circle(EmbeddingLoss):
    """Circle loss: each pair has a weight by how far its cosine is from its optimum.

    On cosines s of an anchor to its positives p and negatives n,
    `log(1 + sum_n exp(scale a_n (s_n - margin)) sum_p exp(-scale a_p (s_p - 1 + margin)))` with the weights
    `a_n = max(0, s_n + margin)` and `a_p = max(0, 1 + margin - s_p)`: equation (6) of Sun et al., Circle Loss: A
    Unified Perspective of Pair Similarity Optimization, 2020, for labels of pairs. The value is the mean over anchors.

    Example: `model.compile(optimizer="adam", loss=tfdml.losses.Circle(margin=0.4, scale=80.0))`.

    Args:
        margin: relaxation m; positives are drawn to 1 - m, negatives to m. The paper has 0.4 with a scale of 80 for
            retrieval, 0.25 with 256 for faces.
        scale: factor γ of the exponents.
        differentiate_weights: whether gradients go through the weights, which are constants in the paper's gradients.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` class numbers.
        embeddings: `[B, d]` of any length.
        queries: number of anchors, which are the first rows; None: every row is one.

    Returns:
        `[B]`; 0 for an anchor without a positive or without a negative.
    """

    margin: Annotated[float, number(at_least=-1, at_most=1)] = 0.4
    scale: Positive = 80.0
    differentiate_weights: bool = False

    takes_queries = True

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        positives, negatives = positive_pairs(labels, queries), negative_pairs(labels, queries)
        similarity = cosines(embeddings, queries)
        positive_weights = ops.maximum(1.0 + self.margin - similarity, 0.0)
        negative_weights = ops.maximum(similarity + self.margin, 0.0)
        if not self.differentiate_weights:
            positive_weights = ops.stop_gradient(positive_weights)
            negative_weights = ops.stop_gradient(negative_weights)
        pull = log_sum_exp(positives, -self.scale * positive_weights * (similarity - 1.0 + self.margin))
        push = log_sum_exp(negatives, self.scale * negative_weights * (similarity - self.margin))
        has_both = ops.logical_and(ops.any(positives, axis=1), ops.any(negatives, axis=1))
        return ops.where(has_both, ops.softplus(pull + push), 0.0)

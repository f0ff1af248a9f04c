"""Binomial deviance loss."""

from typing import Annotated

from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import cosines
from tfdml.functional.pairs import negative_pairs, positive_pairs
from tfdml.losses.base import EmbeddingLoss
from tfdml.registry import register
from tfdml.registry.arguments import Positive, number


@register("loss", "binomial_deviance")
class BinomialDeviance(EmbeddingLoss):
    """Computes the binomial deviance: a soft hinge on cosines, averaged separately over positives and negatives.

    A positive pair costs `log(1 + exp(-alpha (s - beta)))` and a negative pair
    `log(1 + exp(negative_cost alpha (s - beta)))`, where s are cosines. The loss is the mean over positive pairs plus
    the mean over negative pairs (Yi et al., Deep Metric Learning for Person Re-Identification, 2014, in the form of
    Ustinova and Lempitsky, Learning Deep Embeddings with Histogram Loss, 2016). An anchor's value is the part of its
    pairs in both means, times B, so that the mean over anchors is the loss of the batch.

    Use this loss to compare with the papers. Use batches with several images of each of several classes, for example
    from `tfdml.data.pxk`.

    Args:
        alpha: Float. Sharpness of the hinge. Defaults to `2.0`.
        beta: Float from -1 to 1. Cosine at which the hinge bends. Defaults to `0.5`.
        negative_cost: Float. How much sharper the hinge is for negative pairs. Defaults to `25.0`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels.
        embeddings: `[B, d]` of any length.
        queries: Integer or `None`. Number of anchors, which are the first rows. If `None`, every row is an anchor.

    Returns:
        `[B]`, one value per anchor. Anchors without any pair have a value of 0.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    tfdml.losses.BinomialDeviance()(labels, embeddings)  # 8.691
    ```
    """

    alpha: Positive = 2.0
    beta: Annotated[float, number(at_least=-1, at_most=1)] = 0.5
    negative_cost: Positive = 25.0

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        above = self.alpha * (cosines(embeddings, queries) - self.beta)
        pull = _share_of_mean(positive_pairs(labels, queries), ops.softplus(-above))
        push = _share_of_mean(negative_pairs(labels, queries), ops.softplus(self.negative_cost * above))
        return pull + push


def _share_of_mean(mask, values):
    """Returns each row's share `[B]` of the mean over the pairs in the mask, so that their mean is that mean."""
    pairs_a_row = ops.mean(ops.sum(ops.cast(mask, values.dtype), axis=1))
    return ops.sum(ops.where(mask, values, 0.0), axis=1) / ops.where(pairs_a_row == 0.0, 1.0, pairs_a_row)

"""Binomial deviance loss."""

from dataclasses import KW_ONLY
from typing import Annotated

from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import cosines
from tfdml.losses.base import AllPairsLoss, Mean
from tfdml.registry import register
from tfdml.registry.arguments import Positive, number


@register("loss", "binomial_deviance")
class BinomialDeviance(AllPairsLoss):
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
        mining, mean: see `AllPairsLoss`. Terms are the positive pairs and, in a separate mean, the negative pairs.
            Defaults to `"all"` and `"pairs"`.
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
    _: KW_ONLY
    mean: Mean = "pairs"

    weighs_pairs = True

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        similarity = cosines(embeddings, queries)
        positives, negatives = self.selected(labels, embeddings, 1.0 - similarity, queries)
        above = self.alpha * (similarity - self.beta)
        pull = self.of_pairs(ops.softplus(-above), positives)
        return pull + self.of_pairs(ops.softplus(self.negative_cost * above), negatives)

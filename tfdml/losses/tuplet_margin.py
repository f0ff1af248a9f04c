"""Tuplet margin and intra-pair variance losses."""

import math
from dataclasses import KW_ONLY
from typing import Annotated

from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import cosines, turned
from tfdml.losses.base import AllPairsLoss, Mean
from tfdml.losses.n_pair import positives_against_negatives
from tfdml.registry import register
from tfdml.registry.arguments import NotNegative, Positive, number


@register("loss", "tuplet_margin")
class TupletMargin(AllPairsLoss):
    """Computes the tuplet margin loss: an N-pair loss of cosines that eases the angle between positives by a margin.

    The loss of an anchor is the mean over its positives p of
    `log(1 + sum_n exp(scale (cos θ_an - cos(θ_ap - margin))))`, where n are its negatives. It is from Yu and Tao, Deep
    Metric Learning with Tuplet Margin Loss, 2019. The margin lowers the loss of positives, so that the few hardest of
    them, which may be wrong, do not dominate. If `margin` is 0, it is `NPair` of unit-length embeddings.

    Use this loss with `IntraPairVariance`, as the paper does. Use batches with several images of each of several
    classes, for example from `tfdml.data.pxk`.

    Args:
        margin: Float. The margin in radians, from 0 to below π. Defaults to `0.1`.
        scale: Float. Factor of the cosines. With larger values, the hardest negatives dominate. Defaults to `64.0`.
        mining, mean: see `AllPairsLoss`. Terms are positive pairs. Defaults to `"all"` and `"anchors"`.
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
    tfdml.losses.TupletMargin(scale=16.0)(labels, embeddings)  # 0.929
    ```
    """

    margin: Annotated[float, number(at_least=0, below=math.pi, noun="angle in radians")] = 0.1
    scale: Positive = 64.0

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        similarity = cosines(embeddings, queries)
        near, far = self.selected(labels, embeddings, 1.0 - similarity, queries)
        own = self.scale * turned(similarity, -self.margin)
        return self.of_pairs(*positives_against_negatives(near, far, self.scale * similarity, 0.0, own))


@register("loss", "intra_pair_variance")
class IntraPairVariance(AllPairsLoss):
    """Computes the intra-pair variance loss: the cosines of each kind of pair should not be worse than their mean.

    A positive pair costs `max(0, (1 - positive_tolerance) m - s)^2` and a negative pair
    `max(0, s - (1 + negative_tolerance) m)^2`, where s is its cosine, and m is the mean cosine of all pairs of its kind
    in the batch. The loss is the mean over positive pairs plus the mean over negative pairs. It is the regularizer of
    Yu and Tao, Deep Metric Learning with Tuplet Margin Loss, 2019.

    Add it to another loss: `--loss="tuplet_margin + 0.5*intra_pair_variance"`. Use batches with several images of each
    of several classes, for example from `tfdml.data.pxk`.

    Args:
        positive_tolerance: Float. How far below their mean the cosines of positive pairs may be, as a share of it.
            Defaults to `0.01`.
        negative_tolerance: Float. How far above their mean the cosines of negative pairs may be. Defaults to `0.01`.
        mining, mean: see `AllPairsLoss`. Terms are the positive pairs and, in a separate mean, the negative pairs.
            Defaults to `"all"` and `"pairs"`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels.
        embeddings: `[B, d]` of any length.
        queries: Integer or `None`. Number of anchors, which are the first rows. If `None`, every row is an anchor.

    Returns:
        `[B]`, one value per anchor. Anchors without a pair that costs something have a value of 0.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    tfdml.losses.IntraPairVariance()(labels, embeddings)  # 0.044
    ```
    """

    positive_tolerance: NotNegative = 0.01
    negative_tolerance: NotNegative = 0.01
    _: KW_ONLY
    mean: Mean = "pairs"

    weighs_pairs = True

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        similarity = cosines(embeddings, queries)
        positives, negatives = self.selected(labels, embeddings, 1.0 - similarity, queries)
        pull = (1.0 - self.positive_tolerance) * _mean(similarity, positives) - similarity
        push = similarity - (1.0 + self.negative_tolerance) * _mean(similarity, negatives)
        costs = (ops.square(ops.maximum(each, 0.0)) for each in (pull, push))
        return sum(self.of_pairs(cost, pairs) for cost, pairs in zip(costs, (positives, negatives), strict=True))


def _mean(similarity, pairs):
    """Returns the mean similarity of the pairs, or 0 without any."""
    weights = ops.cast(pairs, similarity.dtype)
    total = ops.sum(weights)
    return ops.sum(weights * similarity) / ops.where(total == 0.0, 1.0, total)

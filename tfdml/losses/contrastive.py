"""Contrastive loss."""

from dataclasses import KW_ONLY
from typing import Literal

from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.pairs import given_pairs
from tfdml.functional.statistics import mined_pairs
from tfdml.losses.base import DistanceLoss, Mean
from tfdml.losses.miners import Mining
from tfdml.registry import register
from tfdml.registry.arguments import NotNegative, Text


@register("loss", "contrastive")
class Contrastive(DistanceLoss):
    """Computes the contrastive loss: pulls images of one class together and pushes classes apart up to a margin.

    The loss of an anchor i is `sum_j y_ij D_ij^2 + (1 - y_ij) max(0, margin - D_ij)`, where y_ij is 1 within a class
    and 0 between classes, and D is the Euclidean distance: an anchor's part of equation (10) of Attention-based
    Ensemble. The mean over anchors is the equation's value. With `squared_negatives=True`, a negative pair costs
    `max(0, margin - D_ij)^2`, as in Hadsell et al., Dimensionality Reduction by Learning an Invariant Mapping, 2006,
    and in Lifted Structure.

    With `pairs="given"`, only the pairs of the sampler `pairs` count: row i of the first half of the batch with row i
    of the second half. Each end receives half of a pair's loss, so that the mean over the m rows is Lifted Structure's
    `1 / m` times the sum over `m / 2` pairs.

    The contrastive loss is a simple baseline. Use batches with several images of each of several classes, for example
    from `tfdml.data.pxk`. The loss does not normalize embeddings.

    Args:
        margin: Float. Distance from which a negative pair costs nothing. Defaults to `1.0`.
        positive_margin: Float. Positive pairs nearer than this distance cost nothing. For farther pairs, only the
            excess counts. Defaults to `0.0`.
        squared_positives: Boolean. Whether to square the distances of positive pairs. If `False`, they count linearly,
            as the distances of negative pairs do by default. Defaults to `True`.
        squared_negatives: Boolean. Whether to square the amount by which a negative pair is closer than `margin`.
            Defaults to `False`.
        pairs: Which pairs to use: `"all"` pairs of the batch, or only `"given"` pairs. Defaults to `"all"`.
        distance: Name or spec of a distance; see `tfdml.losses.distances`. Defaults to `"euclidean"`.
        mining, mean: see `AllPairsLoss`. Terms are the positive pairs and, in a separate mean, the negative pairs.
            Defaults to `"all"` and `"none"`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels.
        embeddings: `[B, d]`.
        queries: Integer or `None`. Number of anchors, which are the first rows. If `None`, every row is an anchor.

    Returns:
        `[B]`, one loss per anchor. Anchors without a pair that costs something have a loss of 0.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    tfdml.losses.Contrastive(margin=1.0)(labels, embeddings)  # 0.864
    ```
    """

    margin: NotNegative = 1.0
    positive_margin: NotNegative = 0.0
    squared_positives: bool = True
    squared_negatives: bool = False
    pairs: Literal["all", "given"] = "all"
    _: KW_ONLY
    mining: Mining = "all"
    mean: Mean = "none"
    distance: Text = "euclidean"

    weighs_pairs = True

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        distance = self.distances(embeddings, queries=queries)
        pull = ops.maximum(distance - self.positive_margin, 0.0) if self.positive_margin else distance
        push = ops.maximum(self.margin - distance, 0.0)
        pull = ops.square(pull) if self.squared_positives else pull
        push = ops.square(push) if self.squared_negatives else push
        positives, negatives = self.selected(labels, embeddings, distance, queries)
        if self.pairs == "given":
            drawn = _drawn_pairs(labels)
            pull, push = pull / 2.0, push / 2.0
            positives, negatives = (ops.where(drawn, pairs, ops.zeros_like(pairs)) for pairs in (positives, negatives))
        return self.of_pairs(pull, positives) + self.of_pairs(push, negatives)

    @property
    def batch_parts(self):
        return 2 if self.pairs == "given" else super().batch_parts

    def statistics(self, labels, embeddings):
        """Returns statistics of the pairs that cost something; see `mined_pairs`."""
        labels, embeddings = self.check_input(labels, embeddings)
        distance = self.distances(embeddings)
        positives, negatives = (ops.cast(pairs, "bool") for pairs in self.selected(labels, embeddings, distance))
        positives = ops.logical_and(positives, distance > self.positive_margin)
        negatives = ops.logical_and(negatives, distance < self.margin)
        if self.pairs == "given":
            drawn = _drawn_pairs(labels)
            positives, negatives = ops.logical_and(positives, drawn), ops.logical_and(negatives, drawn)
        boundaries = {"positive_boundary": self.positive_margin, "negative_boundary": self.margin}
        return {**mined_pairs(self.plain_distances(embeddings), positives, negatives), **boundaries}


def _drawn_pairs(labels):
    """Returns the mask of the pairs that the sampler drew, in both orders."""
    one_way = given_pairs(labels, 2)
    return ops.logical_or(one_way, ops.transpose(one_way))

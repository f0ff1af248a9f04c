"""Contrastive loss."""

from typing import Literal

from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import distances
from tfdml.functional.pairs import given_pairs, negative_pairs, positive_pairs
from tfdml.functional.statistics import mined_pairs
from tfdml.losses.base import EmbeddingLoss
from tfdml.registry import register
from tfdml.registry.arguments import NotNegative


@register("loss", "contrastive")
class Contrastive(EmbeddingLoss):
    """Contrastive loss: squared distances of a class, linear or squared hinge between classes.

    Equation (10) of Attention-based Ensemble, an anchor i's part of it:
    `sum_j y_ij D_ij^2 + (1 - y_ij) max(0, margin - D_ij)`, D being the Euclidean distance. The mean over anchors is the
    equation's value. With `squared_negatives` it is `max(0, margin - D_ij)^2`, as in Hadsell et al., Dimensionality
    Reduction by Learning an Invariant Mapping, 2006, and in Lifted Structure.

    With `pairs="given"` only the pairs of the sampler `pairs` count: row i of the first half with row i of the second.
    Half of a pair's value goes to each end, so that the mean over the m rows is Lifted Structure's `1 / m` times the
    sum over `m / 2` pairs.

    Example: `model.compile(optimizer="adam", loss=tfdml.losses.Contrastive(margin=1.0))`.

    Args:
        margin: distance from which another class is left alone.
        positive_margin: positives nearer than this have loss 0; of farther ones the excess counts.
        squared_positives: whether distances within a class are squared, or linear as those between classes are.
        squared_negatives: whether what is missing to the margin is squared.
        pairs: `all` of the batch, or `given`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` class numbers.
        embeddings: `[B, d]`.
        queries: number of anchors, which are the first rows; None: every row is one.

    Returns:
        `[B]`; 0 for an anchor without any pair that costs something.
    """

    margin: NotNegative = 1.0
    positive_margin: NotNegative = 0.0
    squared_positives: bool = True
    squared_negatives: bool = False
    pairs: Literal["all", "given"] = "all"

    takes_queries = True

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        distance = distances(embeddings, queries=queries)
        pull = ops.maximum(distance - self.positive_margin, 0.0) if self.positive_margin else distance
        push = ops.maximum(self.margin - distance, 0.0)
        pull = ops.square(pull) if self.squared_positives else pull
        push = ops.square(push) if self.squared_negatives else push
        costs = ops.where(positive_pairs(labels, queries), pull, ops.where(negative_pairs(labels, queries), push, 0.0))
        if self.pairs == "given":
            costs = ops.where(_drawn_pairs(labels), costs / 2.0, 0.0)
        return ops.sum(costs, axis=1)

    @property
    def batch_parts(self):
        return 2 if self.pairs == "given" else 1

    def statistics(self, labels, embeddings):
        """Of the pairs that cost something, see `mined_pairs`."""
        labels, embeddings = self.check_input(labels, embeddings)
        distance = distances(embeddings)
        positives = ops.logical_and(positive_pairs(labels), distance > self.positive_margin)
        negatives = ops.logical_and(negative_pairs(labels), distance < self.margin)
        if self.pairs == "given":
            drawn = _drawn_pairs(labels)
            positives, negatives = ops.logical_and(positives, drawn), ops.logical_and(negatives, drawn)
        boundaries = {"positive_boundary": self.positive_margin, "negative_boundary": self.margin}
        return {**mined_pairs(distance, positives, negatives), **boundaries}


def _drawn_pairs(labels):
    """The mask of the pairs that the sampler drew, both ways."""
    one_way = given_pairs(labels, 2)
    return ops.logical_or(one_way, ops.transpose(one_way))

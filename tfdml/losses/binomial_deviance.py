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
    """Binomial deviance: a soft hinge on cosines, sharper for negative pairs, each kind averaged for itself.

    A positive pair costs `log(1 + exp(-alpha (s - beta)))`, a negative pair
    `log(1 + exp(negative_cost alpha (s - beta)))`, s being cosines; the loss is the mean over positive pairs plus the
    mean over negative pairs (Yi et al., Deep Metric Learning for Person Re-Identification, 2014, in the form of
    Ustinova and Lempitsky, Learning Deep Embeddings with Histogram Loss, 2016). An anchor's value is its pairs' part of
    both, times B, so that the mean over anchors is the loss of the batch.

    Example: `model.compile(optimizer="adam", loss=tfdml.losses.BinomialDeviance())`.

    Args:
        alpha: sharpness of the hinge.
        beta: cosine at which the hinge bends.
        negative_cost: how much sharper it is for negative pairs.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` class numbers.
        embeddings: `[B, d]` of any length.
        queries: number of anchors, which are the first rows; None: every row is one.

    Returns:
        `[B]`; 0 for an anchor without any pair.
    """

    alpha: Positive = 2.0
    beta: Annotated[float, number(at_least=-1, at_most=1)] = 0.5
    negative_cost: Positive = 25.0

    takes_queries = True

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        above = self.alpha * (cosines(embeddings, queries) - self.beta)
        pull = _share_of_mean(positive_pairs(labels, queries), ops.softplus(-above))
        push = _share_of_mean(negative_pairs(labels, queries), ops.softplus(self.negative_cost * above))
        return pull + push


def _share_of_mean(mask, values):
    """For each row the sum `[B]` over its pairs in the mask, so that the mean over rows is the mean over pairs."""
    pairs_a_row = ops.mean(ops.sum(ops.cast(mask, values.dtype), axis=1))
    return ops.sum(ops.where(mask, values, 0.0), axis=1) / ops.where(pairs_a_row == 0.0, 1.0, pairs_a_row)

"""Histogram loss."""

from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import cosines
from tfdml.functional.pairs import negative_pairs, positive_pairs
from tfdml.functional.statistics import pair_histograms
from tfdml.losses.base import EmbeddingLoss
from tfdml.registry import register
from tfdml.registry.arguments import Count


@register("loss", "histogram")
class Histogram(EmbeddingLoss):
    """Histogram loss: the chance that a positive pair is less similar than a negative pair.

    It is `sum_r h-_r sum_{q<=r} h+_q`, from Ustinova and Lempitsky, Learning Deep Embeddings with Histogram Loss, 2016:
    h+ and h- are the batch's soft histograms of cosines of positive and of negative pairs, each summing to 1. An
    anchor's value is the part that its own negative pairs have in it, times B, so that the mean over anchors is the
    loss of the batch.

    Example: `model.compile(optimizer="adam", loss=tfdml.losses.Histogram(bins=100))`.

    Args:
        bins: steps of the histograms between -1 and 1, which have `bins + 1` nodes.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` class numbers.
        embeddings: `[B, d]` of any length.
        queries: number of anchors, which are the first rows; None: every row is one.

    Returns:
        `[B]`; 0 for an anchor without a negative, and for all where the batch has no positive pair.
    """

    bins: Count = 100

    takes_queries = True

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        positives, negatives = positive_pairs(labels, queries), negative_pairs(labels, queries)
        similarity = cosines(embeddings, queries)
        near, far = pair_histograms(similarity, positives, negatives, low=-1.0, high=1.0, bins=self.bins)
        positive_share = ops.cumsum(ops.mean(near, axis=0)) / _pairs_a_row(positives, similarity.dtype)
        return ops.sum(far * positive_share, axis=1) / _pairs_a_row(negatives, similarity.dtype)


def _pairs_a_row(mask, dtype):
    """The mean over rows of their number of pairs, or 1 if no row has a pair."""
    mean = ops.mean(ops.sum(ops.cast(mask, dtype), axis=1))
    return ops.where(mean == 0.0, 1.0, mean)

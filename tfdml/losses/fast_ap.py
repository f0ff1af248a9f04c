"""FastAP loss."""

from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import cosines
from tfdml.functional.pairs import negative_pairs, positive_pairs
from tfdml.functional.statistics import pair_histograms
from tfdml.losses.base import EmbeddingLoss
from tfdml.registry import register
from tfdml.registry.arguments import Count


@register("loss", "fast_ap")
class FastAP(EmbeddingLoss):
    """FastAP: the average precision of each image's ranking of the others, made differentiable by histograms.

    The loss of an anchor is 1 minus its average precision, `1 - sum_j h+_j H+_j / H_j / N+`, from Cakir et al., Deep
    Metric Learning to Rank, 2019: h+ is the anchor's soft histogram of squared distances to its N+ positives, on the
    sphere, hence from 0 to 4; H+ and H are the running sums of it and of that of all others.

    Example: `model.compile(optimizer="adam", loss=tfdml.losses.FastAP(bins=10))`.

    Args:
        bins: steps of the histograms between 0 and 4, which have `bins + 1` nodes.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` class numbers.
        embeddings: `[B, d]` of any length.
        queries: number of anchors, which are the first rows; None: every row is one.

    Returns:
        `[B]`; 0 for an anchor without a positive or without a negative.
    """

    bins: Count = 10

    takes_queries = True

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        squared = 2.0 - 2.0 * cosines(embeddings, queries)
        near, far = positive_pairs(labels, queries), negative_pairs(labels, queries)
        positives, negatives = pair_histograms(squared, near, far, low=0.0, high=4.0, bins=self.bins)
        positives_so_far, negatives_so_far = ops.cumsum(positives, axis=1), ops.cumsum(negatives, axis=1)
        so_far = positives_so_far + negatives_so_far
        # As h+ sums to N+, 1 minus precision is the share of negatives: nothing cancels where the loss is small.
        wrong = negatives_so_far / ops.where(so_far == 0.0, 1.0, so_far)
        count = ops.sum(ops.cast(near, squared.dtype), axis=1)
        return ops.sum(positives * wrong, axis=1) / ops.maximum(count, 1.0)

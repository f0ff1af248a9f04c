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
    """Computes the histogram loss: the probability that a positive pair is less similar than a negative pair.

    The loss is `sum_r h-_r sum_{q<=r} h+_q`, from Ustinova and Lempitsky, Learning Deep Embeddings with Histogram Loss,
    2016. h+ and h- are the batch's soft histograms of the cosines of positive and of negative pairs, each with a sum of
    1. An anchor's value is the part of its negative pairs in the loss, times B, so that the mean over anchors is the
    loss of the batch.

    Use this loss if you do not want to tune a margin. Use batches with several images of each of several classes, for
    example from `tfdml.data.pxk`.

    Args:
        bins: Integer. Number of steps of the histograms between -1 and 1, which have `bins + 1` nodes. Defaults to
            `100`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels.
        embeddings: `[B, d]` of any length.
        queries: Integer or `None`. Number of anchors, which are the first rows. If `None`, every row is an anchor.

    Returns:
        `[B]`, one value per anchor. Anchors without a negative have a value of 0. If the batch has no positive pair,
        all values are 0.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    tfdml.losses.Histogram(bins=100)(labels, embeddings)  # 0.25
    ```
    """

    bins: Count = 100

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        positives, negatives = positive_pairs(labels, queries), negative_pairs(labels, queries)
        similarity = cosines(embeddings, queries)
        near, far = pair_histograms(similarity, positives, negatives, low=-1.0, high=1.0, bins=self.bins)
        positive_share = ops.cumsum(ops.mean(near, axis=0)) / _pairs_a_row(positives, similarity.dtype)
        return ops.sum(far * positive_share, axis=1) / _pairs_a_row(negatives, similarity.dtype)


def _pairs_a_row(mask, dtype):
    """Returns the mean number of pairs per row, or 1 if no row has a pair."""
    mean = ops.mean(ops.sum(ops.cast(mask, dtype), axis=1))
    return ops.where(mean == 0.0, 1.0, mean)

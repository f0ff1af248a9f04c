"""FastAP loss."""

from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import cosines
from tfdml.functional.statistics import pair_histograms
from tfdml.losses.base import AllPairsLoss
from tfdml.registry import register
from tfdml.registry.arguments import Count


@register("loss", "fast_ap")
class FastAP(AllPairsLoss):
    """Computes the FastAP loss: 1 minus average precision, made differentiable by histograms of distances.

    Each image ranks the other images of the batch by distance, and its positives should come first. The loss of an
    anchor is 1 minus its average precision, `1 - sum_j h+_j H+_j / H_j / N+`, from Cakir et al., Deep Metric Learning
    to Rank, 2019. h+ is the anchor's soft histogram of squared distances to its N+ positives, on the sphere and
    therefore from 0 to 4. H+ is the running sum of h+, and H is the running sum of the histogram of all other rows.

    Use this loss for ranking, with large batches. Use batches with several images of each of several classes, for
    example from `tfdml.data.pxk`.

    Args:
        bins: Integer. Number of steps of the histograms between 0 and 4, which have `bins + 1` nodes. Defaults to `10`.
        mining, mean: see `AllPairsLoss`. Terms are anchors. Defaults to `"all"` and `"anchors"`.
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
    tfdml.losses.FastAP(bins=10)(labels, embeddings)  # 0.25
    ```
    """

    bins: Count = 10

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        squared = 2.0 - 2.0 * cosines(embeddings, queries)
        near, far = self.selected(labels, embeddings, squared / 2.0, queries)
        positives, negatives = pair_histograms(squared, near, far, low=0.0, high=4.0, bins=self.bins)
        positives_so_far, negatives_so_far = ops.cumsum(positives, axis=1), ops.cumsum(negatives, axis=1)
        so_far = positives_so_far + negatives_so_far
        # Because h+ sums to N+, 1 minus precision is the share of negatives. Without a difference, nothing cancels when
        # the loss is small.
        wrong = negatives_so_far / ops.where(so_far == 0.0, 1.0, so_far)
        count = ops.sum(ops.cast(near, squared.dtype), axis=1)
        return self.of_anchors(ops.sum(positives * wrong, axis=1) / ops.maximum(count, 1.0), count > 0.0)

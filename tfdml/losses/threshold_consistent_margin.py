"""Threshold-consistent margin loss."""

from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import cosines, distances, unit_length
from tfdml.functional.pairs import negative_pairs, positive_pairs
from tfdml.functional.statistics import mined_pairs
from tfdml.losses.base import EmbeddingLoss
from tfdml.registry import register
from tfdml.registry.arguments import NotNegative


@register("loss", "threshold_consistent_margin")
class ThresholdConsistentMargin(EmbeddingLoss):
    """Computes the threshold-consistent margin loss (TCM), which holds all classes to the same two cosines.

    The loss is the mean of `positive_margin - s` over the positive pairs of the batch with a cosine s below
    `positive_margin`, plus the mean of `s - negative_margin` over the negative pairs with s above `negative_margin`. It
    is from Zhang et al., Threshold-Consistent Margin Loss for Open-World Deep Metric Learning, 2024. The means are over
    pairs of the batch, so an anchor's value is the part of its pairs in them, times the number of anchors.

    Use it if one threshold should suit all classes. Add it to another loss, as the paper does:
    `--loss="multi_similarity+threshold_consistent_margin"`. Use batches with several images of each of several classes,
    for example from `tfdml.data.pxk`.

    Args:
        positive_margin: Float. Cosine from which a positive pair costs nothing. Defaults to `0.9`.
        negative_margin: Float. Cosine up to which a negative pair costs nothing. Defaults to `0.5`.
        positive_weight: Float. Factor of the positives' mean. Defaults to `1.0`.
        negative_weight: Float. Factor of the negatives' mean. Defaults to `1.0`.
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
    tfdml.losses.ThresholdConsistentMargin()(labels, embeddings)  # 0.32
    ```
    """

    positive_margin: float = 0.9
    negative_margin: float = 0.5
    positive_weight: NotNegative = 1.0
    negative_weight: NotNegative = 1.0

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        similarity = cosines(embeddings, queries)
        pull = ops.where(positive_pairs(labels, queries), ops.maximum(self.positive_margin - similarity, 0.0), 0.0)
        push = ops.where(negative_pairs(labels, queries), ops.maximum(similarity - self.negative_margin, 0.0), 0.0)
        return self.positive_weight * _parts_of_mean(pull) + self.negative_weight * _parts_of_mean(push)

    def statistics(self, labels, embeddings):
        """Returns statistics of the pairs that cost something; see `mined_pairs`. Embeddings are L2-normalized."""
        labels, embeddings = self.check_input(labels, embeddings)
        similarity = cosines(embeddings)
        positives = ops.logical_and(positive_pairs(labels), similarity < self.positive_margin)
        negatives = ops.logical_and(negative_pairs(labels), similarity > self.negative_margin)
        return mined_pairs(distances(unit_length(embeddings)), positives, negatives)


def _parts_of_mean(costs):
    """Returns each row's share `[B]` of the mean of the nonzero costs `[B, N]`, so that their mean is that mean."""
    count = ops.maximum(ops.sum(ops.cast(costs > 0.0, costs.dtype)), 1.0)
    return ops.sum(costs, axis=1) * (ops.cast(ops.shape(costs)[0], costs.dtype) / count)

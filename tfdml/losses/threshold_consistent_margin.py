"""Threshold-consistent margin loss."""

from dataclasses import KW_ONLY

from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import cosines, distances, unit_length
from tfdml.functional.statistics import mined_pairs
from tfdml.losses.base import AllPairsLoss, Mean
from tfdml.registry import register
from tfdml.registry.arguments import NotNegative


@register("loss", "threshold_consistent_margin")
class ThresholdConsistentMargin(AllPairsLoss):
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
        mining, mean: see `AllPairsLoss`. Terms are the positive pairs and, in a separate mean, the negative pairs.
            Defaults to `"all"` and `"nonzero"`.
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
    _: KW_ONLY
    mean: Mean = "nonzero"

    weighs_pairs = True

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        similarity = cosines(embeddings, queries)
        positives, negatives = self.selected(labels, embeddings, 1.0 - similarity, queries)
        pull = self.of_pairs(ops.maximum(self.positive_margin - similarity, 0.0), positives)
        push = self.of_pairs(ops.maximum(similarity - self.negative_margin, 0.0), negatives)
        return self.positive_weight * pull + self.negative_weight * push

    def statistics(self, labels, embeddings):
        """Returns statistics of the pairs that cost something; see `mined_pairs`. Embeddings are L2-normalized."""
        labels, embeddings = self.check_input(labels, embeddings)
        similarity = cosines(embeddings)
        positives, negatives = self.selected(labels, embeddings, 1.0 - similarity)
        positives = ops.logical_and(ops.cast(positives, "bool"), similarity < self.positive_margin)
        negatives = ops.logical_and(ops.cast(negatives, "bool"), similarity > self.negative_margin)
        return mined_pairs(distances(unit_length(embeddings)), positives, negatives)

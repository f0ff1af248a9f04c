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
    """Threshold-consistent margin loss (TCM): hinges that hold all classes to the same two cosines.

    The mean of `positive_margin - s` over the positive pairs of the batch with a cosine s below `positive_margin`, plus
    the mean of `s - negative_margin` over the negative pairs with s above `negative_margin`, from Zhang et al.,
    Threshold-Consistent Margin Loss for Open-World Deep Metric Learning, 2024. The means are over pairs of the batch,
    so an anchor's value is its pairs' part of them, times the number of anchors. The paper adds it to another loss:
    `--loss="multi_similarity+threshold_consistent_margin"`.

    Example: `model.compile(optimizer="adam", loss=tfdml.losses.ThresholdConsistentMargin())`.

    Args:
        positive_margin: cosine from which a positive pair costs nothing.
        negative_margin: cosine up to which a negative pair costs nothing.
        positive_weight: factor of the positives' mean.
        negative_weight: factor of the negatives' mean.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` class numbers.
        embeddings: `[B, d]` of any length.
        queries: number of anchors, which are the first rows; None: every row is one.

    Returns:
        `[B]`; 0 for an anchor without any pair that costs something.
    """

    positive_margin: float = 0.9
    negative_margin: float = 0.5
    positive_weight: NotNegative = 1.0
    negative_weight: NotNegative = 1.0

    takes_queries = True

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        similarity = cosines(embeddings, queries)
        pull = ops.where(positive_pairs(labels, queries), ops.maximum(self.positive_margin - similarity, 0.0), 0.0)
        push = ops.where(negative_pairs(labels, queries), ops.maximum(similarity - self.negative_margin, 0.0), 0.0)
        return self.positive_weight * _parts_of_mean(pull) + self.negative_weight * _parts_of_mean(push)

    def statistics(self, labels, embeddings):
        """Of the pairs that cost something, see `mined_pairs`; distances are those at unit length."""
        labels, embeddings = self.check_input(labels, embeddings)
        similarity = cosines(embeddings)
        positives = ops.logical_and(positive_pairs(labels), similarity < self.positive_margin)
        negatives = ops.logical_and(negative_pairs(labels), similarity > self.negative_margin)
        return mined_pairs(distances(unit_length(embeddings)), positives, negatives)


def _parts_of_mean(costs):
    """Returns values `[B]` whose mean is the mean of those costs `[B, N]` that are not 0."""
    count = ops.maximum(ops.sum(ops.cast(costs > 0.0, costs.dtype)), 1.0)
    return ops.sum(costs, axis=1) * (ops.cast(ops.shape(costs)[0], costs.dtype) / count)

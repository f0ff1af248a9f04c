"""Triplet loss."""

from typing import Literal

from keras import ops

from tfdml.functional import pairs as mine
from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import distances, squared_distances
from tfdml.functional.pairs import (
    Cutoff,
    LossCutoff,
    check_cutoffs,
    given_pairs,
    negative_pairs,
    negative_weights,
    positive_pairs,
)
from tfdml.functional.statistics import mean_of, mined_pairs
from tfdml.losses.base import EmbeddingLoss
from tfdml.registry import register
from tfdml.registry.arguments import NotNegative


@register("loss", "triplet")
class Triplet(EmbeddingLoss):
    """Computes the triplet loss: each anchor should be closer to its own class than to others, by a margin.

    A triplet is an anchor, a positive of its class and a negative of another class. The loss of a triplet is
    `max(0, d_ap^2 - d_an^2 + margin)`, equation (2) of Divide and Conquer, where d are Euclidean distances. The loss of
    an anchor is the mean over its triplets, which `mining` selects:

    - `all`: every positive with every negative.
    - `semi_hard`: every positive with the nearest negative that is farther away than the positive. If there is no such
      negative, the farthest negative.
    - `hard`: every positive with the nearest negative.
    - `batch_hard`: the farthest positive with the nearest negative.
    - `distance_weighted`: every positive with a negative sampled by distance (Wu et al., Sampling Matters in Deep
      Embedding Learning, 2017), for embeddings of unit length. Nothing is actually sampled: the value is the
      expectation, in which each negative counts with its probability, so gradients have no sampling noise.
    - `given`: only the triplets of the sampler `triplets`: row i of the first third of the batch with row i of the
      second third and row i of the last third. An anchor's value is 3/2 of its triplet's loss, so that the mean over
      the m rows is Lifted Structure's `3 / (2m)` times the sum over `m / 3` triplets.

    Use batches with several images of each of several classes, for example from `tfdml.data.pxk`. The loss does not
    normalize embeddings. With a pretrained backbone, avoid `mining="batch_hard"`, because all embeddings may become
    equal. When you train from random weights, try `squared=False`.

    Args:
        margin: Float. Minimum gap between the two distances. Larger values leave more triplets with a nonzero loss.
            Defaults to `0.2`.
        mining: Which triplets to use: `"all"`, `"semi_hard"`, `"hard"`, `"batch_hard"`, `"distance_weighted"` or
            `"given"`. Defaults to `"semi_hard"`.
        squared: Boolean. Whether to square the distances, as in the equation. With plain distances, embeddings collapse
            less easily (Wu et al., 2017). Defaults to `True`.
        cutoff: Float. Distances below this count as this distance, which limits the weight of very near negatives. Only
            used with `mining="distance_weighted"`. Defaults to `0.5`.
        nonzero_loss_cutoff: Float or `None`. Negatives at this distance or farther are not sampled, unless an anchor
            has no others. If `None`, any distance is allowed. Only used with `mining="distance_weighted"`. Defaults to
            `1.4`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels.
        embeddings: `[B, d]`.
        queries: Integer or `None`. Number of anchors, which are the first rows. If `None`, every row is an anchor.

    Returns:
        `[B]`, one loss per anchor. Anchors without a positive or without a negative have a loss of 0.

    Raises:
        ValueError: If `nonzero_loss_cutoff` is not above `cutoff`.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    tfdml.losses.Triplet(mining="hard")(labels, embeddings)  # 0.26
    ```
    """

    margin: NotNegative = 0.2
    mining: Literal["all", "semi_hard", "hard", "batch_hard", "distance_weighted", "given"] = "semi_hard"
    squared: bool = True
    cutoff: Cutoff = 0.5
    nonzero_loss_cutoff: LossCutoff = 1.4

    def check_arguments(self):
        check_cutoffs(self.cutoff, self.nonzero_loss_cutoff)
        if self.mining != "distance_weighted":
            self.warn_of_unused(["cutoff", "nonzero_loss_cutoff"], "mining")

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        positives, negatives = positive_pairs(labels, queries), negative_pairs(labels, queries)
        distance = (squared_distances if self.squared else distances)(embeddings, queries=queries)
        if self.mining == "given":
            positives, negatives = _given(labels, positives, negatives)
            pulled, pushed = (ops.sum(ops.where(pairs, distance, 0.0), axis=1) for pairs in (positives, negatives))
            values = 1.5 * ops.maximum(pulled - pushed + self.margin, 0.0)
        elif self.mining == "batch_hard":
            gap = mine.hardest_positive(distance, positives) - mine.hardest_negative(distance, negatives)
            values = ops.maximum(gap + self.margin, 0.0)
        else:
            hinges, _ = self._hinges(embeddings, distance, negatives, self.mining, queries)
            count = ops.maximum(ops.sum(ops.cast(positives, hinges.dtype), axis=1), 1.0)
            values = ops.sum(ops.where(positives, hinges, 0.0), axis=1) / count
        has_triplet = ops.logical_and(ops.any(positives, axis=1), ops.any(negatives, axis=1))
        return ops.where(has_triplet, values, 0.0)

    def _hinges(self, embeddings, distance, negatives, mining, queries=None):
        """Returns the mean loss of the triplets in which each anchor and other row `[B, B]` are the positive pair.

        Also returns the distance `[B, B]` or `[B, 1]` to the negative of each pair, or None if pairs have several.
        """
        if mining == "all":
            weights = ops.cast(negatives, distance.dtype)
            weights = weights / ops.maximum(ops.sum(weights, axis=1, keepdims=True), 1.0)
            return _every_triplet(distance, weights, self.margin), None
        if mining == "distance_weighted":
            cutoffs = {"cutoff": self.cutoff, "nonzero_loss_cutoff": self.nonzero_loss_cutoff}
            plain = distances(embeddings, queries=queries)
            weights = negative_weights(plain, negatives, ops.shape(embeddings)[1], **cutoffs)
            return _every_triplet(distance, weights, self.margin), None
        if mining == "semi_hard":
            negative = mine.semi_hard_negative(distance, negatives)
        else:
            negative = mine.hardest_negative(distance, negatives)[:, None]
        return ops.maximum(distance - negative + self.margin, 0.0), negative

    def statistics(self, labels, embeddings):
        """Returns statistics of the positive pairs in triplets that cost something; see `mined_pairs`.

        If mining selects one negative per positive pair, they include the mean `mined_negative_distance`.
        """
        labels, embeddings = self.check_input(labels, embeddings)
        positives, negatives = positive_pairs(labels), negative_pairs(labels)
        plain = distances(embeddings)
        distance = ops.square(plain) if self.squared else plain
        # With one triplet per anchor, its negative is the hardest of the remaining negatives.
        mining = {"batch_hard": "hard", "given": "hard"}.get(self.mining, self.mining)
        if self.mining == "batch_hard":
            positives = ops.logical_and(positives, distance == mine.hardest_positive(distance, positives)[:, None])
        elif self.mining == "given":
            positives, negatives = _given(labels, positives, negatives)
        hinges, negative = self._hinges(embeddings, distance, negatives, mining)
        positives = ops.logical_and(positives, ops.any(negatives, axis=1, keepdims=True))
        positives = ops.logical_and(positives, hinges > 0.0)
        statistics = mined_pairs(plain, positives)
        if negative is not None:
            negative = ops.sqrt(negative) if self.squared else negative
            statistics["mined_negative_distance"] = mean_of(positives, negative)
        return statistics

    @property
    def batch_parts(self):
        return 3 if self.mining == "given" else 1


def _given(labels, positives, negatives):
    """Returns the masks of the positives and negatives in the triplets that the sampler drew."""
    return tuple(
        ops.logical_and(pairs, given_pairs(labels, 3, part)) for part, pairs in enumerate((positives, negatives), 1)
    )


def _every_triplet(distance, weights, margin):
    """Returns each row's weighted sum of hinges, which it computes from running sums along sorted distances."""
    order = ops.argsort(distance, axis=1)
    ascending = ops.take_along_axis(distance, order, axis=1)
    weights = ops.take_along_axis(weights, order, axis=1)
    threshold = distance + margin
    closer = mine.count_at_most(ascending, threshold)
    return threshold * _sum_of_first(closer, weights) - _sum_of_first(closer, weights * ascending)


def _sum_of_first(counts, values):
    """Returns, for each count `[B, B]`, the sum of that many first values of the row."""
    running = ops.cumsum(values, axis=1)
    running = ops.concatenate([ops.zeros_like(running[:, :1]), running], axis=1)
    return ops.take_along_axis(running, counts, axis=1)

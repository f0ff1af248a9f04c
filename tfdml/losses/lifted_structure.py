"""Lifted structure loss."""

from dataclasses import KW_ONLY
from typing import Literal

from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import unit_length
from tfdml.functional.pairs import hardest_negative, log_sum_exp
from tfdml.functional.statistics import mined_pairs
from tfdml.losses.base import DistanceLoss, Mean
from tfdml.losses.miners import Mining
from tfdml.registry import register
from tfdml.registry.arguments import NotNegative, Text

# The violation of a row without a negative.
NO_NEGATIVE = -1e30


@register("loss", "lifted_structure")
class LiftedStructure(DistanceLoss):
    """Computes the lifted structure loss: each positive pair against all negatives of both of its ends.

    The two objectives of Song et al., Deep Metric Learning via Lifted Structured Feature Embedding, 2016, are
    `J = 1 / (2 |P|) sum_ij max(0, J_ij)^2` over positive pairs P, where D are Euclidean distances, not squared, and

    - `hard`: `J_ij = max(max_k margin - D_ik, max_l margin - D_jl) + D_ij`,
    - `smooth`: `J_ij = log(sum_k exp(margin - D_ik) + sum_l exp(margin - D_jl)) + D_ij`.

    k are the negatives of i, and l are the negatives of j. The smooth form is an upper bound of the hard one and is
    what the paper trains with. Each end receives half of a pair's value, scaled so that the mean over anchors is J.

    `form="generalized"` compares all positives of an anchor with all of its negatives,
    `max(0, log(sum_p exp(D_ap)) + log(sum_n exp(margin - D_an)))`, from Hermans et al., In Defense of the Triplet Loss
    for Person Re-Identification, 2017.

    Use this loss with large batches. Use batches with several images of each of several classes, for example from
    `tfdml.data.pxk`. By default, it does not normalize embeddings.

    Args:
        margin: Float. Distance by which negatives should be farther apart than positives. Defaults to `1.0`.
        form: `"smooth"`, `"hard"`, the hardest negative only, or `"generalized"`. Defaults to `"smooth"`.
        normalize: Boolean. Whether to L2-normalize embeddings first. The paper does not. Defaults to `False`.
        distance: Name or spec of a distance; see `tfdml.losses.distances`. Defaults to `"euclidean"`.
        mining, mean: see `AllPairsLoss`. Terms are positive pairs, or anchors if `form="generalized"`. Defaults to
            `"all"` and `"pairs"`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels.
        embeddings: `[B, d]`.

    Returns:
        `[B]`, one loss per anchor. Anchors without a positive have a loss of 0. So do pairs with no negative at either
        end, because the sum over negatives is empty and J_ij is minus infinity.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    tfdml.losses.LiftedStructure(margin=1.0)(labels, embeddings)  # 2.483
    ```
    """

    margin: NotNegative = 1.0
    form: Literal["smooth", "hard", "generalized"] = "smooth"
    normalize: bool = False
    _: KW_ONLY
    mining: Mining = "all"
    mean: Mean = "pairs"
    distance: Text = "euclidean"

    def call(self, labels, embeddings):
        labels, embeddings = check_pairs_input(labels, embeddings)
        positives, distance, objectives = self._objectives(labels, embeddings)
        if self.form == "generalized":
            return self.of_anchors(ops.maximum(objectives[:, 0], 0.0), ops.any(positives, axis=1))
        return self.of_pairs(ops.square(ops.maximum(objectives, 0.0)) / 2.0, positives)

    def _objectives(self, labels, embeddings):
        """Returns the mask of positive pairs, distances `[B, B]`, and J of each pair `[B, B]` or anchor `[B, 1]`."""
        embeddings = unit_length(embeddings) if self.normalize else embeddings
        distance = self.distances(embeddings)
        positives, negatives = self.selected(labels, embeddings, distance)
        # A very low value replaces minus infinity, which has a NaN gradient. J is then far below 0.
        none = ops.logical_not(ops.any(negatives, axis=1))
        if self.form == "hard":
            ends = ops.where(none, NO_NEGATIVE, self.margin - hardest_negative(distance, negatives))
            violations = ops.maximum(ends[:, None], ends[None, :])
        else:
            ends = ops.where(none, NO_NEGATIVE, log_sum_exp(negatives, self.margin - distance))
            if self.form == "generalized":
                return positives, distance, (ends + log_sum_exp(positives, distance))[:, None]
            violations = ops.logaddexp(ends[:, None], ends[None, :])
        return positives, distance, violations + distance

    def statistics(self, labels, embeddings):
        """Returns statistics of the positive pairs that cost something; see `mined_pairs`. Each has all negatives."""
        labels, embeddings = self.check_input(labels, embeddings)
        positives, _, costs = self._objectives(labels, embeddings)
        rows = unit_length(embeddings) if self.normalize else embeddings
        return mined_pairs(self.plain_distances(rows), ops.logical_and(positives, costs > 0.0))

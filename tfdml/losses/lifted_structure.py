"""Lifted structure loss."""

from typing import Literal

from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import distances, unit_length
from tfdml.functional.pairs import hardest_negative, log_sum_exp, negative_pairs, positive_pairs
from tfdml.functional.statistics import mined_pairs
from tfdml.losses.base import EmbeddingLoss
from tfdml.registry import register
from tfdml.registry.arguments import NotNegative

# The violation of an end without a negative.
NO_NEGATIVE = -1e30


@register("loss", "lifted_structure")
class LiftedStructure(EmbeddingLoss):
    """Lifted structure: each positive pair against all negatives of both its ends, smooth or the hardest only.

    The two objectives of Song et al., Deep Metric Learning via Lifted Structured Feature Embedding, 2016:
    `J = 1 / (2 |P|) sum_ij max(0, J_ij)^2` over positive pairs P, where D are Euclidean distances, not squared, and

    - `hard`: `J_ij = max(max_k margin - D_ik, max_l margin - D_jl) + D_ij`,
    - `smooth`: `J_ij = log(sum_k exp(margin - D_ik) + sum_l exp(margin - D_jl)) + D_ij`,

    k being the negatives of i and l those of j. The smooth form bounds the other from above and is what the paper
    trains with. A pair's value goes half to each end, and is scaled so that the mean over anchors is J.

    Example: `model.compile(optimizer="adam", loss=tfdml.losses.LiftedStructure(margin=1.0))`.

    Args:
        margin: by how much negatives shall be farther.
        form: `smooth` or `hard`.
        normalize: whether embeddings are brought to unit length first. The paper leaves them as they are.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` class numbers.
        embeddings: `[B, d]`.

    Returns:
        `[B]`; 0 for an anchor without a positive, and for a pair of which no end has a negative, where the sum over
        negatives is empty and J_ij is minus infinity.
    """

    margin: NotNegative = 1.0
    form: Literal["smooth", "hard"] = "smooth"
    normalize: bool = False

    def call(self, labels, embeddings):
        labels, embeddings = check_pairs_input(labels, embeddings)
        positives, distance, objectives = self._objectives(labels, embeddings)
        costs = ops.where(positives, ops.square(ops.maximum(objectives, 0.0)), 0.0)
        # Every pair stands in the matrix twice.
        pairs = ops.maximum(ops.sum(ops.cast(positives, distance.dtype)), 1.0) / 2.0
        batch = ops.cast(ops.shape(distance)[0], distance.dtype)
        return ops.sum(costs, axis=1) / 2.0 * batch / (2.0 * pairs)

    def _objectives(self, labels, embeddings):
        """The mask of positive pairs, distances, and J of each pair, all `[B, B]`."""
        distance = distances(unit_length(embeddings) if self.normalize else embeddings)
        positives, negatives = positive_pairs(labels), negative_pairs(labels)
        # In place of minus infinity, of which the gradient is NaN: without a negative at either end J is far below 0.
        none = ops.logical_not(ops.any(negatives, axis=1))
        if self.form == "hard":
            ends = ops.where(none, NO_NEGATIVE, self.margin - hardest_negative(distance, negatives))
            violations = ops.maximum(ends[:, None], ends[None, :])
        else:
            ends = ops.where(none, NO_NEGATIVE, log_sum_exp(negatives, self.margin - distance))
            violations = ops.logaddexp(ends[:, None], ends[None, :])
        return positives, distance, violations + distance

    def statistics(self, labels, embeddings):
        """Of the positive pairs that cost something, see `mined_pairs`; each has all negatives."""
        labels, embeddings = self.check_input(labels, embeddings)
        positives, distance, costs = self._objectives(labels, embeddings)
        return mined_pairs(distance, ops.logical_and(positives, costs > 0.0))

"""Triplet loss."""

from keras import ops

from tfdml.functional import mining as mine
from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import distances, squared_distances
from tfdml.functional.pairs import negative_pairs, positive_pairs
from tfdml.losses.embedding_loss import EmbeddingLoss
from tfdml.registry import register

MININGS = ("all", "semi_hard", "hard", "batch_hard")


def triplet_loss(labels, embeddings, *, margin=0.2, mining="semi_hard", squared=True):
    """Triplet loss of each anchor, equation (2) of Divide and Conquer: `max(0, d_ap^2 - d_an^2 + margin)`.

    An anchor's value is the mean over its triplets, which `mining` chooses:

    - `all`: every positive with every negative.
    - `semi_hard`: every positive with the nearest negative that is farther than it, or with the farthest negative
      where none is.
    - `hard`: every positive with the nearest negative.
    - `batch_hard`: the farthest positive with the nearest negative.

    Args:
        labels: `[B]` class numbers.
        embeddings: `[B, d]`.
        margin: by how much the distances shall differ.
        mining: one of the above.
        squared: whether distances are squared, as in the equation, or not, which collapses less easily (Wu et al.,
            Sampling Matters, 2017).

    Returns:
        `[B]`; 0 for an anchor without a positive or without a negative.
    """
    _check_mining(mining)
    labels, embeddings = check_pairs_input(labels, embeddings)
    positives, negatives = positive_pairs(labels), negative_pairs(labels)
    distance = squared_distances(embeddings) if squared else distances(embeddings)
    if mining == "all":
        values = _all_triplets(distance, positives, negatives, margin)
    elif mining == "batch_hard":
        gap = mine.hardest_positive(distance, positives) - mine.hardest_negative(distance, negatives)
        values = ops.maximum(gap + margin, 0.0)
    else:
        values = _one_negative_a_pair(distance, positives, negatives, margin, mining)
    has_triplet = ops.logical_and(ops.any(positives, axis=1), ops.any(negatives, axis=1))
    return ops.where(has_triplet, values, 0.0)


def _all_triplets(distance, positives, negatives, margin):
    """Mean hinge over positives and negatives, from sorted negatives and their running sums."""
    ascending, negative_count = mine.sorted_negatives(distance, negatives)
    threshold = distance + margin
    closer = ops.minimum(mine.count_at_most(ascending, threshold), negative_count[:, None])
    running = ops.cumsum(ascending, axis=1)
    running = ops.concatenate([ops.zeros_like(running[:, :1]), running], axis=1)
    hinge_sum = ops.cast(closer, distance.dtype) * threshold - ops.take_along_axis(running, closer, axis=1)
    positive_count = ops.sum(ops.cast(positives, "int32"), axis=1)
    triplets = ops.cast(ops.maximum(positive_count * negative_count, 1), distance.dtype)
    return ops.sum(ops.where(positives, hinge_sum, 0.0), axis=1) / triplets


def _one_negative_a_pair(distance, positives, negatives, margin, mining):
    if mining == "semi_hard":
        negative = mine.semi_hard_negative(distance, negatives)
    else:
        negative = mine.hardest_negative(distance, negatives)[:, None]
    hinge = ops.where(positives, ops.maximum(distance - negative + margin, 0.0), 0.0)
    positive_count = ops.sum(ops.cast(positives, distance.dtype), axis=1)
    return ops.sum(hinge, axis=1) / ops.maximum(positive_count, 1.0)


def _check_mining(mining):
    if mining not in MININGS:
        raise ValueError(f"Unknown mining {mining!r}. Expected one of {', '.join(MININGS)}.")


@register("loss", "triplet")
class Triplet(EmbeddingLoss):
    """Triplet loss over all, semi-hard, hard or batch-hard triplets, on squared or plain distances.

    Example: `model.compile(optimizer="adam", loss=tfdml.losses.Triplet(margin=0.2, mining="semi_hard"))`.

    Args:
        margin, mining, squared: see `triplet_loss`.
    """

    def __init__(self, margin=0.2, mining="semi_hard", squared=True, **kwargs):
        super().__init__(**kwargs)
        _check_mining(mining)
        self.margin = margin
        self.mining = mining
        self.squared = squared

    def call(self, labels, embeddings):
        return triplet_loss(labels, embeddings, margin=self.margin, mining=self.mining, squared=self.squared)

    def get_config(self):
        return {**super().get_config(), "margin": self.margin, "mining": self.mining, "squared": self.squared}

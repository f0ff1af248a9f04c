"""Multi-similarity loss."""

from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import cosines, distances, unit_length
from tfdml.functional.pairs import log_one_plus_sum_exp, negative_pairs, positive_pairs
from tfdml.functional.statistics import mined_pairs
from tfdml.losses.base import EmbeddingLoss
from tfdml.registry import register
from tfdml.registry.arguments import Positive


@register("loss", "multi_similarity")
class MultiSimilarity(EmbeddingLoss):
    """Multi-similarity loss: soft hinges on cosines of pairs that are mined against the hardest of the other kind.

    On cosines s of an anchor to its positives p and negatives n,
    `log(1 + sum_p exp(-alpha (s_p - base))) / alpha + log(1 + sum_n exp(beta (s_n - base))) / beta`, from Wang et al.,
    Multi-Similarity Loss with General Pair Weighting for Deep Metric Learning, 2019, where the sums are over the pairs
    that mining leaves: positives with `s_p < max_n s_n + epsilon` and negatives with `s_n > min_p s_p - epsilon`. The
    paper divides by all anchors, as the mean does.

    Example: `model.compile(optimizer="adam", loss=tfdml.losses.MultiSimilarity())`.

    Args:
        alpha: sharpness of the positives' sum.
        beta: sharpness of the negatives' sum.
        base: the cosine λ from which pairs count more. The paper prints 1 with a beta of 50, with which only negatives
            that are nearly equal to the anchor count; its authors' code has 0.5 with 40.
        epsilon: by how much a pair may be easier than the hardest of the other kind and still be kept.
        mining: whether pairs are mined; if not, all count.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` class numbers.
        embeddings: `[B, d]` of any length.
        queries: number of anchors, which are the first rows; None: every row is one.

    Returns:
        `[B]`; 0 for an anchor without any pair left. With mining none is left where a kind is missing.
    """

    alpha: Positive = 2.0
    beta: Positive = 50.0
    base: float = 0.5
    epsilon: float = 0.1
    mining: bool = True

    takes_queries = True

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        positives, negatives = positive_pairs(labels, queries), negative_pairs(labels, queries)
        similarity = cosines(embeddings, queries)
        if self.mining:
            positives, negatives = _mined(similarity, positives, negatives, self.epsilon)
        pull = log_one_plus_sum_exp(positives, -self.alpha * (similarity - self.base)) / self.alpha
        push = log_one_plus_sum_exp(negatives, self.beta * (similarity - self.base)) / self.beta
        return pull + push

    def statistics(self, labels, embeddings):
        """Of the pairs that mining leaves, see `mined_pairs`; distances are those at unit length."""
        labels, embeddings = self.check_input(labels, embeddings)
        pairs = positive_pairs(labels), negative_pairs(labels)
        if self.mining:
            pairs = _mined(cosines(embeddings), *pairs, self.epsilon)
        return mined_pairs(distances(unit_length(embeddings)), *pairs)


def _mined(similarity, positives, negatives, epsilon):
    """Masks of the pairs that are harder than the hardest of the other kind, up to epsilon."""
    outside = 2.0 + abs(epsilon)
    most_similar = ops.max(ops.where(negatives, similarity, -outside), axis=1, keepdims=True)
    least_similar = ops.min(ops.where(positives, similarity, outside), axis=1, keepdims=True)
    # Written so that NaN similarities are kept, and the loss is NaN too.
    easy_positives = similarity >= most_similar + epsilon
    easy_negatives = similarity <= least_similar - epsilon
    return (
        ops.logical_and(positives, ops.logical_not(easy_positives)),
        ops.logical_and(negatives, ops.logical_not(easy_negatives)),
    )

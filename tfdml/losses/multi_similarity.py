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
    """Computes the multi-similarity loss: soft hinges on the cosines of mined positive and negative pairs.

    Pairs count more the harder they are, and mining keeps only pairs that compete with the hardest pair of the other
    kind. With cosines s of an anchor to its positives p and negatives n, its loss is `log(1 + sum_p exp(-alpha (s_p -
    base))) / alpha + log(1 + sum_n exp(beta (s_n - base))) / beta`, from Wang et al., Multi-Similarity Loss with
    General Pair Weighting for Deep Metric Learning, 2019. The sums are over the pairs that mining keeps: positives with
    `s_p < max_n s_n + epsilon` and negatives with `s_n > min_p s_p - epsilon`. The paper divides by the number of all
    anchors, which is what the mean over anchors does.

    The loss mines pairs by itself and is as good as most others. Use batches with several images of each of several
    classes, for example from `tfdml.data.pxk`.

    Args:
        alpha: Float. Sharpness of the sum over positives. With larger values, the hardest positives dominate. Defaults
            to `2.0`.
        beta: Float. Sharpness of the sum over negatives. With larger values, the hardest negatives dominate. Defaults
            to `50.0`.
        base: Float. The cosine λ around which the hinges bend. The paper prints 1 with a beta of 50, with which only
            negatives that are nearly equal to the anchor count; its authors' code uses 0.5 with 40. Defaults to `0.5`.
        epsilon: Float. How much easier a pair may be than the hardest pair of the other kind and still be kept. Larger
            values keep more pairs. Defaults to `0.1`.
        mining: Boolean. Whether to mine pairs. If `False`, all pairs count. Defaults to `True`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels.
        embeddings: `[B, d]` of any length.
        queries: Integer or `None`. Number of anchors, which are the first rows. If `None`, every row is an anchor.

    Returns:
        `[B]`, one loss per anchor. Anchors for which no pair is left have a loss of 0. With mining, no pair is left if
        the anchor has no positive or no negative.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    tfdml.losses.MultiSimilarity()(labels, embeddings)  # 0.339
    ```
    """

    alpha: Positive = 2.0
    beta: Positive = 50.0
    base: float = 0.5
    epsilon: float = 0.1
    mining: bool = True

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
        """Returns statistics of the pairs that mining keeps; see `mined_pairs`. Embeddings are L2-normalized."""
        labels, embeddings = self.check_input(labels, embeddings)
        pairs = positive_pairs(labels), negative_pairs(labels)
        if self.mining:
            pairs = _mined(cosines(embeddings), *pairs, self.epsilon)
        return mined_pairs(distances(unit_length(embeddings)), *pairs)


def _mined(similarity, positives, negatives, epsilon):
    """Returns the masks of the pairs that are harder than the hardest pair of the other kind, up to epsilon."""
    outside = 2.0 + abs(epsilon)
    most_similar = ops.max(ops.where(negatives, similarity, -outside), axis=1, keepdims=True)
    least_similar = ops.min(ops.where(positives, similarity, outside), axis=1, keepdims=True)
    # Comparisons with NaN are False, so pairs with NaN are kept and the loss is NaN.
    easy_positives = similarity >= most_similar + epsilon
    easy_negatives = similarity <= least_similar - epsilon
    return (
        ops.logical_and(positives, ops.logical_not(easy_positives)),
        ops.logical_and(negatives, ops.logical_not(easy_negatives)),
    )

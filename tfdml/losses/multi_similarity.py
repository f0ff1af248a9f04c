"""Multi-similarity loss."""

from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import cosines, distances, unit_length
from tfdml.functional.pairs import log_one_plus_sum_exp
from tfdml.functional.statistics import mined_pairs
from tfdml.losses.base import PairLoss
from tfdml.losses.miners import Mining
from tfdml.registry import register
from tfdml.registry.arguments import Positive


@register("loss", "multi_similarity")
class MultiSimilarity(PairLoss):
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
            values keep more pairs. Only used with `mining="multi_similarity"`. Defaults to `0.1`.
        mining: Name or spec of a miner; see `tfdml.losses.miners`. With `"all"`, all pairs count. Defaults to
            `"multi_similarity"`.
        mean: see `PairLoss`. Terms are anchors. Defaults to `"anchors"`.
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
    mining: Mining = "multi_similarity"

    of_miner = ("epsilon",)

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        similarity = cosines(embeddings, queries)
        positives, negatives = self.selected(labels, embeddings, 1.0 - similarity, queries)
        pull = log_one_plus_sum_exp(positives, -self.alpha * (similarity - self.base)) / self.alpha
        push = log_one_plus_sum_exp(negatives, self.beta * (similarity - self.base)) / self.beta
        return self.of_anchors(pull + push, ops.any(ops.logical_or(positives, negatives), axis=1))

    def statistics(self, labels, embeddings):
        """Returns statistics of the pairs that mining keeps; see `mined_pairs`. Embeddings are L2-normalized."""
        labels, embeddings = self.check_input(labels, embeddings)
        pairs = self.selected(labels, embeddings, 1.0 - cosines(embeddings))
        return mined_pairs(distances(unit_length(embeddings)), *pairs)

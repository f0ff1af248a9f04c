"""Triplet loss."""

from typing import Literal

from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.pairs import Cutoff, LossCutoff, check_cutoffs
from tfdml.functional.statistics import mean_of, mined_pairs
from tfdml.functional.triplets import (
    costly_positives,
    dynamic,
    hinge,
    hinge_sums,
    one_negative_sums,
    softplus,
    triplet_sums,
)
from tfdml.losses.base import DistanceLoss
from tfdml.losses.miners import Mining
from tfdml.registry import register
from tfdml.registry.arguments import NotNegative, Text

# Distances that can be converted to Euclidean distances.
EUCLIDEAN = {"euclidean": ops.convert_to_tensor, "squared_euclidean": ops.sqrt}


@register("loss", "triplet")
class Triplet(DistanceLoss):
    """Computes the triplet loss: each anchor should be closer to its own class than to others, by a margin.

    A triplet is an anchor, a positive of its class and a negative of another class. The loss of a triplet is
    `max(0, d_ap^2 - d_an^2 + margin)`, equation (2) of Divide and Conquer, where d are Euclidean distances. The loss of
    an anchor is the mean over its triplets, which a miner selects, such as `"semi_hard"`, `"batch_hard"` or
    `"distance_weighted"`. With `"given"`, only the triplets of the sampler `triplets` count. An anchor's value is then
    3/2 of its triplet's loss, so that the mean over the m rows is Lifted Structure's `3 / (2m)` times the sum over
    `m / 3` triplets.

    Use batches with several images of each of several classes, for example from `tfdml.data.pxk`. The loss does not
    normalize embeddings. With a pretrained backbone, avoid `mining="batch_hard"`, because all embeddings may become
    equal. When you train from random weights, try `distance="euclidean"`, with which embeddings collapse less easily
    (Wu et al., 2017).

    With `swap=True`, the nearer of the anchor and the positive is compared with the negative (Balntas et al., Learning
    Local Feature Descriptors with Triplets and Shallow Convolutional Neural Networks, 2016). With the miner
    `"easy_hard(positives='hard', fallback=True)"` and `form="smooth"`, this is the PN loss of Ivis.

    Args:
        margin: Float. Minimum gap between the two distances. Larger values leave more triplets with a nonzero loss.
            Defaults to `0.2`.
        mining: Name or spec of a miner, or a `Miner`; see `tfdml.losses.miners`. Defaults to `"semi_hard"`.
        distance: Name or spec of a distance; see `tfdml.losses.distances`. Defaults to `"squared_euclidean"`, as in the
            equation.
        form: `"hinge"`; `"smooth"` for `log(1 + exp(d_ap^2 - d_an^2 + margin))`; or `"dynamic"` for
            `F (d_ap^2 - d_an^2)`, where F is the share of the batch's triplets with a smaller difference, a constant
            for the gradient (Zhang and Rusinkiewicz, Learning Local Descriptors With a CDF-Based Dynamic Soft Margin,
            2019). Use `"dynamic"` with `distance="euclidean"` and unit-length embeddings. Defaults to `"hinge"`.
        swap: Boolean. Whether to compare the negative with the nearer of the anchor and the positive. Defaults to
            `False`.
        cutoff: Float. Distances below this count as this distance, which limits the weight of very near negatives. Only
            used with `mining="distance_weighted"`. Defaults to `0.5`.
        nonzero_loss_cutoff: Float or `None`. Negatives at this distance or farther are not sampled, unless an anchor
            has no others. If `None`, any distance is allowed. Only used with `mining="distance_weighted"`. Defaults to
            `1.4`.
        mean: see `PairLoss`; terms are triplets. Defaults to `"anchors"`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels.
        embeddings: `[B, d]`.
        queries: Integer or `None`. Number of anchors, which are the first rows. If `None`, every row is an anchor.

    Returns:
        `[B]`, one loss per anchor. Anchors without a positive or without a negative have a loss of 0.

    Raises:
        ValueError: If `nonzero_loss_cutoff` is not above `cutoff`, or if `mining` or `distance` is invalid.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    tfdml.losses.Triplet(mining="hard")(labels, embeddings)  # 0.26
    ```
    """

    margin: NotNegative = 0.2
    mining: Mining = "semi_hard"
    distance: Text = "squared_euclidean"
    cutoff: Cutoff = 0.5
    nonzero_loss_cutoff: LossCutoff = 1.4
    form: Literal["hinge", "smooth", "dynamic"] = "hinge"
    swap: bool = False

    of_miner = ("cutoff", "nonzero_loss_cutoff")
    weighs_pairs = True

    def check_arguments(self):
        check_cutoffs(self.cutoff, self.nonzero_loss_cutoff)
        super().check_arguments()
        if self.form == "dynamic":
            self.warn_of_unused(["margin"], "form")
        if self.batch_parts > 1:
            self.warn_of_unused(["mean"], "mining")

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        distance = self.distances(embeddings, queries=queries)
        sums = self._sums(distance, self.mine(labels, embeddings, distance, queries))
        if self.batch_parts > 1:
            return 1.5 * sums.total
        return self.averaged(sums.total, sums.count, sums.nonzero)

    def _sums(self, distance, mined):
        """Returns the `TripletSums` of each anchor, computed in the fastest way that the triplets allow."""
        if self.swap:
            return triplet_sums(distance, mined, self._cost(distance, mined), swap=True)
        if mined.negative is not None:
            return one_negative_sums(distance, mined, self._cost(distance, mined))
        if mined.chosen is None and self.form == "hinge":
            return hinge_sums(distance, mined, self.margin)
        return triplet_sums(distance, mined, self._cost(distance, mined))

    def _cost(self, distance, mined):
        """Returns the cost of the gap between the distances to a positive and to a negative, as a function."""
        return dynamic(distance, mined) if self.form == "dynamic" else COSTS[self.form](self.margin)

    def statistics(self, labels, embeddings):
        """Returns statistics of the positive pairs in triplets that cost something; see `mined_pairs`.

        If mining selects one negative per positive pair, they include the mean `mined_negative_distance`, for Euclidean
        distances and their squares.
        """
        labels, embeddings = self.check_input(labels, embeddings)
        distance, plain = self.distances(embeddings), self.plain_distances(embeddings)
        mined = self.mine(labels, embeddings, distance)
        costly = costly_positives(distance, mined, self._cost(distance, mined), self.swap)
        statistics = mined_pairs(plain, costly)
        if mined.negative is not None and self.distance in EUCLIDEAN:
            statistics["mined_negative_distance"] = mean_of(costly, EUCLIDEAN[self.distance](mined.negative))
        return statistics

    @property
    def refuses_memory(self):
        """The reason why the loss cannot use cross-batch memory, or `None` if it can."""
        return "it compares positives with negatives" if self.swap else super().refuses_memory


COSTS = {"hinge": hinge, "smooth": softplus}

"""SmoothAP and PNP losses, which rank the batch smoothly."""

from dataclasses import KW_ONLY
from typing import Literal

from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import cosines
from tfdml.functional.pairs import other_rows
from tfdml.functional.statistics import ranking_loss_and_slopes, with_slopes
from tfdml.losses.base import AllPairsLoss
from tfdml.registry import register
from tfdml.registry.arguments import Positive, Tensor


class SmoothRanking(AllPairsLoss):
    """Base class of losses on the smooth ranks of an anchor's positives, of which `cost` is the loss of one.

    Args:
        temperature, include_query: see `SmoothAP`.
        mining, mean: see `AllPairsLoss`. Terms are anchors. Defaults to `"all"` and `"anchors"`.
        reduction, name, dtype: see `EmbeddingLoss`.
    """

    temperature: Positive = 0.01
    include_query: bool = False

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        similarity = cosines(embeddings, queries)
        others, negatives = self.selected(labels, embeddings, 1.0 - similarity, queries)
        itself = ops.logical_not(other_rows(labels, queries))
        found = ops.logical_or(others, itself) if self.include_query else others
        found = ops.logical_and(found, ops.any(others, axis=1, keepdims=True))
        scores = similarity / self.temperature
        ranked = ranking_loss_and_slopes(ops.stop_gradient(scores), found, negatives, self.cost)
        return self.of_anchors(with_slopes(scores, *ranked), ops.any(found, axis=1))

    def cost(self, rank: Tensor, wrong: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the loss of a positive and its derivatives; see `ranking_loss_and_slopes`."""
        raise NotImplementedError(f"{type(self).__name__} must implement cost(rank, wrong).")


@register("loss", "smooth_ap")
class SmoothAP(SmoothRanking):
    """Computes the SmoothAP loss: 1 minus average precision, made differentiable by sigmoids.

    Each image ranks the other images of the batch by similarity, and its positives should come first. The loss of an
    anchor is 1 minus its average precision, with ranks that are sums of sigmoids:
    `1 - mean_i (1 + sum_p g_pi) / (1 + sum_p g_pi + sum_n g_ni)` with `g_ji = sigmoid((s_j - s_i) / temperature)`,
    where s are cosines to the anchor and g_ji is how far row j is ahead of row i in the anchor's ranking. i are the
    anchor's positives, p its other positives, and n its negatives. It is from Brown et al., Smooth-AP: Smoothing the
    Path Towards Large-Scale Image Retrieval, 2020.

    Use this loss for ranking, for example if classes have few rows in a batch. Use batches with several images of each
    of several classes, for example from `tfdml.data.pxk`. Memory grows with the square of the batch size; time grows
    with its square times the size of its largest class.

    Args:
        temperature: Float. τ, the width of the sigmoids. Lower values are closer to average precision, but fewer pairs
            have a gradient. Defaults to `0.01`.
        include_query: Boolean. Whether the anchor itself is among its positives, as in the authors' code. It is then
            first in its own ranking, which makes the loss smaller. Defaults to `False`.
        mining, mean: see `AllPairsLoss`. Terms are anchors. Defaults to `"all"` and `"anchors"`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels.
        embeddings: `[B, d]` of any length.
        queries: Integer or `None`. Number of anchors, which are the first rows. If `None`, every row is an anchor.

    Returns:
        `[B]`, one loss per anchor. Anchors without a positive or without a negative have a loss of 0.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    tfdml.losses.SmoothAP(temperature=0.01)(labels, embeddings)  # 0.25
    ```
    """

    def cost(self, rank, wrong):
        total = rank + wrong
        return wrong / total, -wrong / total**2, rank / total**2


@register("loss", "pnp")
class PNP(SmoothRanking):
    """Computes the PNP loss: the number of negatives ranked before each positive, made differentiable by sigmoids.

    With the number w of an anchor's negatives that are ahead of a positive in its ranking, a sum of sigmoids as in
    `SmoothAP`, the loss of the anchor is the mean of `f(w)` over its positives. It is from Li et al., Rethinking the
    Optimization of Average Precision: Only Penalizing Negative Instances before Positive Ones is Enough, 2022.

    Use this loss for ranking, as `SmoothAP`. Use batches with several images of each of several classes, for example
    from `tfdml.data.pxk`. Memory and time grow as in `SmoothAP`.

    Args:
        temperature: Float. The width of the sigmoids. Defaults to `0.01`.
        include_query: Boolean. Whether the anchor itself is among its positives. Defaults to `False`.
        form: The function f, with the paper's names: `"O"` for w; `"Ds"` for log(1 + w); `"Dq"` for
            1 - (1 + w)^-alpha; `"Iu"` for (1 + w) log(1 + w); `"Ib"` for (b w - log(1 + b w)) / b^2. With the forms D,
            positives that are far behind pull less, which suits label noise; with the forms I, they pull more. Defaults
            to `"O"`.
        alpha: Float. Exponent of the form `"Dq"`. Defaults to `1.0`.
        b: Float. Factor of the form `"Ib"`. Defaults to `2.0`.
        mining, mean: see `AllPairsLoss`. Terms are anchors. Defaults to `"all"` and `"anchors"`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels.
        embeddings: `[B, d]` of any length.
        queries: Integer or `None`. Number of anchors, which are the first rows. If `None`, every row is an anchor.

    Returns:
        `[B]`, one loss per anchor. Anchors without a positive or without a negative have a loss of 0.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    tfdml.losses.PNP(form="Ds")(labels, embeddings)  # 0.347
    ```
    """

    form: Literal["O", "Ds", "Dq", "Iu", "Ib"] = "O"
    _: KW_ONLY
    alpha: Positive = 1.0
    b: Positive = 2.0

    def check_arguments(self):
        super().check_arguments()
        unused = [name for name, form in (("alpha", "Dq"), ("b", "Ib")) if form != self.form]
        self.warn_of_unused(unused, "form")

    def cost(self, rank, wrong):
        log, none = ops.log1p(wrong), ops.zeros_like(rank)
        if self.form == "O":
            return wrong, none, ops.ones_like(wrong)
        if self.form == "Ds":
            return log, none, 1.0 / (1.0 + wrong)
        if self.form == "Dq":
            return -ops.expm1(-self.alpha * log), none, self.alpha * ops.exp(-(self.alpha + 1.0) * log)
        if self.form == "Iu":
            return (1.0 + wrong) * log, none, log + 1.0
        scaled = self.b * wrong
        return (scaled - ops.log1p(scaled)) / self.b**2, none, wrong / (1.0 + scaled)

"""Margin loss."""

from dataclasses import KW_ONLY
from typing import Literal

from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.pairs import Cutoff, LossCutoff, check_cutoffs
from tfdml.functional.statistics import mined_pairs
from tfdml.layers.proxies import ClassMargins
from tfdml.losses.base import DistanceLoss, Mean
from tfdml.losses.miners import Mining
from tfdml.registry import register
from tfdml.registry.arguments import Count, NotNegative, Text


@register("loss", "margin")
class Margin(DistanceLoss):
    """Computes the margin loss: distances within a class stay below a boundary, distances between classes above it.

    A pair of anchor i costs `max(0, margin + y_ij (D_ij - beta_i))`, where y_ij is 1 within a class and -1 between
    classes, and D are Euclidean distances. Each triplet also costs `nu beta_i` (Wu et al., Sampling Matters in Deep
    Embedding Learning, 2017). An anchor's own class should therefore be nearer than `beta - margin`, and other classes
    farther away than `beta + margin`. The pairs come from the triplets that a miner selects, by default every positive
    with each negative weighted by the probability that distance-weighted sampling draws it. A pair counts once for each
    triplet that contains it.

    The paper sums over pairs. As in its authors' code, the loss of a batch is that sum divided by the number of pairs
    with a nonzero hinge, and by at least 1. The values of anchors are scaled so that their mean is this loss.

    Use this loss for fine-grained classes. Use batches with several images of each of several classes, for example from
    `tfdml.data.pxk`. The loss does not normalize embeddings.

    A learned boundary is a variable of the layer that `make_layer` returns. The models of `tfdml.methods` create this
    layer. In plain Keras, the model ends with it, `outputs = loss.make_layer()(embeddings, labels)`, and the loss
    receives its output of shape `[B, 1, d + 1]`. A label outside the classes raises an error, or gives NaN in a
    compiled function.

    Args:
        beta: Float. The boundary. If it is learned, this is the initial value. Defaults to `1.2`.
        margin: Float. Minimum gap between the boundary and the distances on either side of it. Defaults to `0.2`.
        learn_beta: `"no"` for a fixed boundary, `"one"` to learn one boundary for all classes, or `"per_class"`.
            Defaults to `"no"`.
        nu: Float. Weight of the boundary itself. Larger values pull it down. Only used if the boundary is learned.
            Defaults to `0.0`.
        cutoff: Float. With `mining="nearest"`, the minimum distance of negatives. With `mining="distance_weighted"`,
            distances below this count as this distance, which limits the weight of very near negatives. Defaults to
            `0.5`.
        nonzero_loss_cutoff: Float or `None`. Negatives at this distance or farther are not sampled, unless an anchor
            has no others. If `None`, any distance is allowed. Only used with `mining="distance_weighted"`. Defaults to
            `1.4`.
        mining: Name or spec of a miner, or a `Miner`; see `tfdml.losses.miners`. Defaults to `"distance_weighted"`.
        distance: Name or spec of a distance; see `tfdml.losses.distances`. Defaults to `"euclidean"`.
        classes: Integer or `None`. Number of classes, required for `learn_beta="per_class"`. The training command sets
            it. Defaults to `None`.
        mean: see `PairLoss`. Terms are the pairs, as often as they are in triplets. Defaults to `"nonzero"`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels.
        embeddings: `[B, d]`, or the output `[B, 1, d + 1]` of the layer if the boundary is learned.
        queries: Integer or `None`. Number of anchors, which are the first rows. If `None`, every row is an anchor.

    Returns:
        `[B]`, one loss per anchor. Anchors without a positive or without a negative have a loss of 0.

    Raises:
        ValueError: If `nonzero_loss_cutoff` is not above `cutoff`.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    tfdml.losses.Margin(beta=1.2)(labels, embeddings)  # 0.665
    ```
    """

    beta: NotNegative = 1.2
    margin: NotNegative = 0.2
    learn_beta: Literal["no", "one", "per_class"] = "no"
    nu: NotNegative = 0.0
    cutoff: Cutoff = 0.5
    nonzero_loss_cutoff: LossCutoff = 1.4
    mining: Mining = "distance_weighted"
    _: KW_ONLY
    mean: Mean = "nonzero"
    distance: Text = "euclidean"
    classes: Count | None = None

    of_miner = ("cutoff", "nonzero_loss_cutoff")
    weighs_pairs = True

    def check_arguments(self):
        check_cutoffs(self.cutoff, self.nonzero_loss_cutoff)
        super().check_arguments()
        if self.learn_beta == "no":
            self.warn_of_unused(["nu"], "learn_beta")

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = self.check_input(labels, embeddings)
        # The cost of a fixed boundary would change the value but no gradient.
        beta, nu = self.beta, 0.0
        if self.learn_beta != "no":
            embeddings, beta, nu = embeddings[:, 0, :-1], embeddings[:, 0, -1:], self.nu
        distance = self.distances(embeddings, queries=queries)
        pulls, pushes = self._counts(labels, embeddings, distance, queries)
        pull = ops.maximum(self.margin + distance - beta, 0.0)
        push = ops.maximum(self.margin - distance + beta, 0.0)
        active = pulls * ops.cast(pull > 0, pulls.dtype) + pushes * ops.cast(push > 0, pushes.dtype)
        sums = [ops.sum(each, axis=1) for each in (pulls * (pull + nu * beta) + pushes * push, pulls + pushes, active)]
        # Without any nonzero pair, the boundary does not move.
        return ops.where(ops.any(active > 0), self.averaged(*sums), 0.0)

    def _counts(self, labels, embeddings, distance, queries=None):
        """Returns the number of triplets with each pair: `[B, B]` for positives and `[B, B]` for negatives."""
        mined = self.mine(labels, embeddings, distance, queries)
        positives, negatives = (ops.cast(pairs, distance.dtype) for pairs in mined.pairs(distance.dtype))
        if mined.chosen is not None:
            return positives, negatives
        # Each positive is combined with every negative.
        return tuple(
            pairs * ops.sum(others, axis=1, keepdims=True)
            for pairs, others in ((positives, negatives), (negatives, positives))
        )

    @property
    def refuses_memory(self):
        """The reason why the loss cannot use cross-batch memory, or `None` if it can."""
        learns = self.learn_beta != "no"
        return "the boundary that it learns comes with the images of a batch" if learns else super().refuses_memory

    def make_layer(self):
        if self.learn_beta == "no":
            return None
        if self.learn_beta == "one":
            return ClassMargins(1, beta=self.beta)
        if self.classes is None:
            raise ValueError(
                "Margin needs the number of training classes to learn one boundary per class. Set it with "
                "Margin(learn_beta='per_class', classes=...)."
            )
        return ClassMargins(self.classes, beta=self.beta)

    def check_input(self, labels, embeddings):
        if self.learn_beta == "no":
            return super().check_input(labels, embeddings)
        embeddings = ops.convert_to_tensor(embeddings)
        if len(embeddings.shape) != 3 or embeddings.shape[1] != 1:
            raise ValueError(
                f"Margin(learn_beta={self.learn_beta!r}) needs embeddings followed by the margin of their class. "
                f"Expected shape [batch, 1, dim + 1]. Received: shape={tuple(embeddings.shape)}. The layer "
                "ClassMargins appends the margins. End the model that you train with this layer: "
                "loss.make_layer()(embeddings, labels), with this Margin as `loss`."
            )
        labels, rows = check_pairs_input(labels, embeddings[:, 0])
        return labels, rows[:, None]

    def label_classes(self, embeddings):
        return self.classes if self.learn_beta == "per_class" else None

    def statistics(self, labels, embeddings):
        """Returns statistics of the pairs that cost something; see `mined_pairs`. Boundaries are means over anchors."""
        labels, rows = self.check_input(labels, embeddings)
        beta = ops.full((1, 1), self.beta, dtype=rows.dtype)
        if self.learn_beta != "no":
            rows, beta = rows[:, 0, :-1], rows[:, 0, -1:]
        distance = self.distances(rows)
        pulls, pushes = self._counts(labels, rows, distance)
        positives = ops.logical_and(pulls > 0, distance > beta - self.margin)
        negatives = ops.logical_and(pushes > 0, distance < beta + self.margin)
        middle = ops.mean(beta)
        boundaries = {"positive_boundary": middle - self.margin, "negative_boundary": middle + self.margin}
        return {**mined_pairs(self.plain_distances(rows), positives, negatives), **boundaries}

"""N-pair and NT-Xent losses."""

from typing import Literal

from keras import ops

from tfdml.functional.checks import check_class_numbers, check_pairs_input
from tfdml.functional.distances import dot_products, unit_length
from tfdml.functional.pairs import log_sum_exp, places_in_class
from tfdml.losses.base import AllPairsLoss
from tfdml.registry import register
from tfdml.registry.arguments import NotNegative, Positive


@register("loss", "n_pair")
class NPair(AllPairsLoss):
    """Computes the N-pair loss: a softmax of each positive against all negatives or one image per other class.

    The loss of an anchor is `log(1 + sum_n exp(scale (s_an - s_ap + margin)))`, where s are dot products. Every row is
    an anchor. `negatives` selects its positives p and negatives n:

    - `all`: equation (3) of Ensemble Deep Manifold Similarity. p is each other row of the anchor's class, and the value
      is the mean over p. n is every row of another class.
    - `one_per_class`: equation (2) of Ranked List Loss, N pairs of N classes. p is the next row of the anchor's class
      in the batch; for the last row, it is the first. n is the row at the same place as p, counted within classes, of
      each other class. A batch of pairs is therefore read as N pairs twice, so that each row is the anchor once. With K
      rows per class, it is K such batches. The mean over anchors is the equation's mean.
    - `first_pair_per_class`: the same equation once, with the first two rows of each class. The first is the anchor,
      the second is p, and the second rows of other classes are n. All other rows have a loss of 0. The values are
      multiplied by B / N for N such classes, so that their mean over the batch is the mean over pairs, as
      pytorch-metric-learning computes it. It computes `[B / 2, B / 2]` similarities, while the other two compute
      `[B, B]`.

    The loss is smooth and needs no mining. Use batches with several images of each of several classes, for example from
    `tfdml.data.pxk`. With `normalize=False`, it does not normalize embeddings.

    Args:
        margin: Float. Minimum difference between the similarities of positives and negatives. Defaults to `0.0`.
        scale: Float. Factor of all similarities and of the margin, which none of the papers has. With unit-length
            embeddings, dot products are at most 1, and with a scale of 1, anchors that are already right are pulled
            nearly as much as others. Defaults to `1.0`.
        negatives: Which rows to compare with: `"all"`, `"one_per_class"` or `"first_pair_per_class"`. Defaults to
            `"all"`.
        normalize: Boolean. Whether to L2-normalize embeddings first. Defaults to `False`.
        regularization: Float. Factor of each anchor's squared length before normalization, which is added to its loss
            and keeps the length small (Sohn, Improved Deep Metric Learning with Multi-class N-pair Loss Objective,
            2016). Defaults to `0.0`.
        mining, mean: see `AllPairsLoss`. Terms are positive pairs. Defaults to `"all"` and `"anchors"`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels.
        embeddings: `[B, d]`.
        queries: Integer or `None`. Number of anchors, which are the first rows. If `None`, every row is an anchor.

    Returns:
        `[B]`, one loss per anchor. Anchors without a positive or without a negative have a loss of 0.

    Raises:
        ValueError: If labels are not `[B]` and `negatives` is not `"all"`.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    tfdml.losses.NPair(scale=16.0)(labels, embeddings)  # 1.339
    ```
    """

    margin: NotNegative = 0.0
    scale: Positive = 1.0
    negatives: Literal["all", "one_per_class", "first_pair_per_class"] = "all"
    normalize: bool = False
    regularization: NotNegative = 0.0

    def check_arguments(self):
        super().check_arguments()
        if self.negatives == "first_pair_per_class":
            self.warn_of_unused(["mining", "mean"], "negatives")

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        if self.negatives != "all":
            check_class_numbers(labels)
        rows = unit_length(embeddings) if self.normalize else embeddings
        lengths = self.regularization * ops.sum(ops.square(embeddings[:queries]), axis=1)
        if self.negatives == "first_pair_per_class":
            values, weights = _of_first_pairs(labels, rows, self.margin, self.scale)
            return ops.where(weights > 0.0, weights * (values + lengths), 0.0)
        similarity = dot_products(rows, queries)
        near, far = self.selected(labels, rows, 1.0 - similarity, queries)
        if self.negatives == "one_per_class":
            place = _at_the_next_place(labels)
            near, far = ops.logical_and(near, place), ops.logical_and(far, place)
        costs, pairs = positives_against_negatives(near, far, self.scale * similarity, self.scale * self.margin)
        return self.of_pairs(costs, pairs) + ops.where(ops.any(pairs, axis=1), lengths, 0.0)

    @property
    def refuses_memory(self):
        """The reason why the loss cannot use cross-batch memory if it reads the batch as pairs, or else `None`."""
        reads_pairs = f"with negatives={self.negatives!r} it reads a batch as pairs"
        return super().refuses_memory if self.negatives == "all" else reads_pairs


def positives_against_negatives(near, far, similarity, margin, own=None):
    """Computes `log(1 + sum_n exp(s_an - s_ap + margin))` of each anchor a and positive p, and which pairs have one.

    Args:
        near, far: Masks `[B, B]` of each anchor's positives p and negatives n.
        similarity: `[B, B]`.
        margin: Float. See `NPair`.
        own: `[B, B]` similarities of positives, or None if these are in `similarity`.

    Returns:
        The values `[B, B]`, and the mask `[B, B]` of the positives of anchors that have a negative.
    """
    gap = (log_sum_exp(far, similarity) + margin)[:, None] - (similarity if own is None else own)
    return ops.softplus(gap), ops.logical_and(near, ops.any(far, axis=1, keepdims=True))


def _of_first_pairs(labels, rows, margin, scale):
    """Returns the loss `[B]` of each anchor, and `[B]` with B / N for anchors that have a loss and 0 for others."""
    size = ops.shape(rows)[0]
    anchors, positives, count = _first_pairs(labels)
    places = ops.arange(ops.shape(anchors)[0], dtype="int32")
    holds_pair = ops.logical_and(places < count, count > 1)
    near, far = ops.take(rows, anchors, axis=0), ops.take(rows, positives, axis=0)
    among = ops.logical_and(holds_pair[None, :], places[:, None] != places[None, :])
    others = log_sum_exp(among, scale * ops.matmul(near, ops.transpose(far)))
    values = ops.softplus(others + scale * (margin - ops.sum(near * far, axis=1)))
    weight = ops.cast(size, rows.dtype) / ops.cast(ops.maximum(count, 1), rows.dtype)
    both = ops.where(holds_pair[:, None], ops.stack([values, ops.ones_like(values) * weight], axis=1), 0.0)
    both = ops.segment_sum(both, anchors, num_segments=size)
    return both[:, 0], both[:, 1]


def _first_pairs(labels):
    """Returns the indices of the first and the second row of each class with two rows, and the number of such classes.

    The indices have `B // 2 + 1` elements. Elements after the last pair have no meaning.
    """
    size = ops.shape(labels)[0]
    order = ops.argsort(labels)
    ascending = ops.take(labels, order)
    no = ops.zeros((1,), dtype="bool")
    repeated = ops.concatenate([no, ascending[1:] == ascending[:-1], no], axis=0)
    # A pair starts with the first row of a class, if the next row has the same class.
    begins = ops.logical_and(ops.logical_not(repeated[:-1]), repeated[1:])
    number = ops.cumsum(ops.cast(begins, "int32"))
    places = ops.searchsorted(number, ops.arange(1, size // 2 + 2, dtype="int32"))
    places = ops.minimum(ops.cast(places, "int32"), size - 1)
    return ops.take(order, places), ops.take(order, ops.minimum(places + 1, size - 1)), number[-1]


def _at_the_next_place(labels):
    """Returns the mask `[B, B]` of rows at the place in their class that follows the anchor's place in its class."""
    place, size = places_in_class(labels)
    following = ops.where(place + 1 < size, place + 1, 0)
    return following[:, None] == place[None, :]


@register("loss", "nt_xent")
class NTXent(AllPairsLoss):
    """Computes the NT-Xent loss of SimCLR: a softmax of cosines of each positive against all negatives.

    The loss of an anchor i is the mean over its positives p of `-log(e_ip / (e_ip + sum_n e_in))` with
    `e_ij = exp(s_ij / temperature)`, where s are cosines and n are the rows of other classes. This is the normalized
    temperature-scaled cross-entropy, equation (1) of Chen et al., A Simple Framework for Contrastive Learning of Visual
    Representations, 2020. The paper has one positive for each anchor, the other view of the same image. If there are
    several positives, each is compared with the negatives only, whereas `SupCon` also has the other positives in the
    sum.

    Use this loss for views of images, or for positives that should not compete with each other. Each batch needs
    several rows with the same label, for example from `tfdml.data.views` or `tfdml.data.pxk`.

    Args:
        temperature: Float. Divides the cosines. With lower values, the hardest pairs count more. Defaults to `0.1`.
        mining, mean: see `AllPairsLoss`. Terms are positive pairs. Defaults to `"all"` and `"anchors"`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels. If rows are views of images, the number of the image.
        embeddings: `[B, d]` of any length.
        queries: Integer or `None`. Number of anchors, which are the first rows. If `None`, every row is an anchor.

    Returns:
        `[B]`, one loss per anchor. Anchors without a positive or without a negative have a loss of 0.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    tfdml.losses.NTXent(temperature=0.1)(labels, embeddings)  # 0.967
    ```
    """

    temperature: Positive = 0.1

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        # The dot products of these rows are cosines divided by the temperature.
        similarity = dot_products(unit_length(embeddings) / self.temperature**0.5, queries)
        near, far = self.selected(labels, embeddings, 1.0 - self.temperature * similarity, queries)
        return self.of_pairs(*positives_against_negatives(near, far, similarity, 0.0))

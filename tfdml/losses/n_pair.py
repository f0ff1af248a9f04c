"""N-pair and NT-Xent losses."""

from typing import Literal

from keras import ops

from tfdml.functional.checks import check_class_numbers, check_pairs_input
from tfdml.functional.distances import dot_products, unit_length
from tfdml.functional.pairs import log_sum_exp, negative_pairs, positive_pairs
from tfdml.losses.base import EmbeddingLoss
from tfdml.registry import register
from tfdml.registry.arguments import NotNegative, Positive


@register("loss", "n_pair")
class NPair(EmbeddingLoss):
    """N-pair loss: a softmax in which a positive wins over an image of each other class, or over all of them.

    The loss of an anchor is `log(1 + sum_n exp(scale (s_an - s_ap + margin)))`, s being dot products. Every row is an
    anchor. Its positives p and negatives n are chosen by `negatives`:

    - `all`: equation (3) of Ensemble Deep Manifold Similarity. p is each other row of the anchor's class, and the value
      is the mean over p; n is every row of another class.
    - `one_per_class`: equation (2) of Ranked List Loss, N pairs of N classes. p is the next row of the anchor's class
      in the batch, for the last one the first; n is the row at p's place, counted within classes, of each other class.
      So a batch of pairs is read as N pairs twice, each row being the anchor once; with K rows a class it is K such
      batches. The mean over anchors is the equation's mean.
    - `first_pair_per_class`: the same equation once, with the first two rows of each class: the first is the anchor,
      the second is p, and those of other classes are n. All other rows cost 0. The values are multiplied by B / N for N
      such classes, so that their mean over the batch is the mean over pairs, as pytorch-metric-learning computes it. It
      takes `[B / 2, B / 2]` similarities, where the others take `[B, B]`.

    Example: `model.compile(optimizer="adam", loss=tfdml.losses.NPair(margin=0.0))`.

    Args:
        margin: by how much a positive shall be more similar than negatives are.
        scale: factor of all similarities; none of the papers has one. At unit length dot products are at most 1, and
            with a scale of 1 anchors that are right are pulled nearly as much as others.
        negatives: `all`, `one_per_class` or `first_pair_per_class`.
        normalize: whether embeddings are brought to unit length first.
        regularization: factor of each anchor's squared length before that, which keeps it small (Sohn, Improved Deep
            Metric Learning with Multi-class N-pair Loss Objective, 2016).
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` class numbers.
        embeddings: `[B, d]`.
        queries: number of anchors, which are the first rows; None: every row is one.

    Returns:
        `[B]`; 0 for an anchor without a positive or without a negative.
    """

    margin: NotNegative = 0.0
    scale: Positive = 1.0
    negatives: Literal["all", "one_per_class", "first_pair_per_class"] = "all"
    normalize: bool = False
    regularization: NotNegative = 0.0

    takes_queries = True

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        if self.negatives != "all":
            check_class_numbers(labels)
        rows = unit_length(embeddings) if self.normalize else embeddings
        if self.negatives == "first_pair_per_class":
            values, weights = _of_first_pairs(labels, rows, self.margin, self.scale)
        else:
            values, weights = self._of_all_rows(labels, rows, queries)
        if self.regularization:
            values = values + self.regularization * ops.sum(ops.square(embeddings[:queries]), axis=1)
        return ops.where(weights > 0.0, weights * values, 0.0)

    def _of_all_rows(self, labels, rows, queries):
        """Values `[B]`, and 1 for anchors that have one, 0 for others."""
        near, far = positive_pairs(labels, queries), negative_pairs(labels, queries)
        if self.negatives == "one_per_class":
            place = _at_the_next_place(labels)
            near, far = ops.logical_and(near, place), ops.logical_and(far, place)
        similarity = self.scale * dot_products(rows, queries)
        return positives_against_negatives(near, far, similarity, self.scale * self.margin)

    @property
    def refuses_memory(self):
        """Why it does, where it reads the batch as pairs."""
        return None if self.negatives == "all" else f"with negatives={self.negatives!r} it reads a batch as pairs"


def positives_against_negatives(near, far, similarity, margin):
    """Means `[B]` over p of `log(1 + sum_n exp(s_an - s_ap + margin))`, and 1 for anchors that have one, 0 for others.

    Args:
        near, far: masks `[B, B]` of each anchor's positives p and negatives n.
        similarity: `[B, B]`.
        margin: see `NPair`.
    """
    gap = (log_sum_exp(far, similarity) + margin)[:, None] - similarity
    count = ops.sum(ops.cast(near, gap.dtype), axis=1)
    values = ops.sum(ops.where(near, ops.softplus(gap), 0.0), axis=1) / ops.maximum(count, 1.0)
    return values, ops.cast(ops.logical_and(count > 0.0, ops.any(far, axis=1)), gap.dtype)


def _of_first_pairs(labels, rows, margin, scale):
    """Values `[B]`, and B / N for anchors that have one, 0 for others."""
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
    """Numbers of the first and the second row of each class that has two, and how many such classes there are.

    There are `B // 2 + 1` places, more than pairs; those past the last pair hold rows without meaning.
    """
    size = ops.shape(labels)[0]
    order = ops.argsort(labels)
    ascending = ops.take(labels, order)
    no = ops.zeros((1,), dtype="bool")
    repeated = ops.concatenate([no, ascending[1:] == ascending[:-1], no], axis=0)
    # The class begins at this place, and goes on at the next one.
    begins = ops.logical_and(ops.logical_not(repeated[:-1]), repeated[1:])
    number = ops.cumsum(ops.cast(begins, "int32"))
    places = ops.searchsorted(number, ops.arange(1, size // 2 + 2, dtype="int32"))
    places = ops.minimum(ops.cast(places, "int32"), size - 1)
    return ops.take(order, places), ops.take(order, ops.minimum(places + 1, size - 1)), number[-1]


def _at_the_next_place(labels):
    """True `[B, B]` where the other row is as far on in its class as the row after the anchor is in the anchor's."""
    same = labels[:, None] == labels[None, :]
    rows = ops.arange(ops.shape(labels)[0])
    before = ops.logical_and(same, rows[None, :] < rows[:, None])
    place, size = ops.sum(ops.cast(before, "int32"), axis=1), ops.sum(ops.cast(same, "int32"), axis=1)
    following = ops.where(place + 1 < size, place + 1, 0)
    return following[:, None] == place[None, :]


@register("loss", "nt_xent")
class NTXent(EmbeddingLoss):
    """NT-Xent, the loss of SimCLR: a softmax of cosines in which each positive wins over all negatives.

    The loss of an anchor i is the mean over its positives p of `-log(e_ip / (e_ip + sum_n e_in))` with
    `e_ij = exp(s_ij / temperature)`, s being cosines and n the rows of other classes: the normalized
    temperature-scaled cross-entropy, equation (1) of Chen et al., A Simple Framework for Contrastive Learning of Visual
    Representations, 2020. The paper has one positive for each anchor, the other view of the same image. With several,
    each of them stands against the negatives alone, where `SupCon` has the other positives in the sum as well.

    Example: `model.compile(optimizer="adam", loss=tfdml.losses.NTXent(temperature=0.1))`.

    Args:
        temperature: divides the cosines; lower makes the hardest pairs count more.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` class numbers; the number of the image where rows are views of images.
        embeddings: `[B, d]` of any length.
        queries: number of anchors, which are the first rows; None: every row is one.

    Returns:
        `[B]`; 0 for an anchor without a positive or without a negative.
    """

    temperature: Positive = 0.1

    takes_queries = True

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        near, far = positive_pairs(labels, queries), negative_pairs(labels, queries)
        # Dot products of these are cosines divided by the temperature.
        similarity = dot_products(unit_length(embeddings) / self.temperature**0.5, queries)
        values, weights = positives_against_negatives(near, far, similarity, 0.0)
        return ops.where(weights > 0.0, values, 0.0)

"""The Recall@k surrogate loss, which ranks the batch smoothly."""

from collections.abc import Sequence
from typing import Annotated

from keras import ops

from tfdml.functional.checks import check_class_numbers, check_pairs_input
from tfdml.functional.distances import cosines, dot_products, unit_length
from tfdml.functional.pairs import negative_pairs, other_rows, places_in_class, positive_pairs
from tfdml.functional.statistics import ranking_loss_and_slopes, with_slopes
from tfdml.layers.mixing import MixingShares
from tfdml.losses.base import EmbeddingLoss
from tfdml.registry import register
from tfdml.registry.arguments import Positive, integer, several


@register("loss", "recall_at_k")
class RecallAtK(EmbeddingLoss):
    """Computes the Recall@k surrogate loss: 1 minus the recall at several k, made differentiable by sigmoids.

    Each image ranks the other images of the batch by similarity, and its positives should be among the first k. The
    loss of an anchor is `1 - mean_k sum_p sigmoid((k - r_p) / rank_temperature) / min(k, P)` over its P positives p.
    Their ranks are sums of sigmoids, `r_p = 1 + sum_(z != p) sigmoid((s_z - s_p) / temperature)`, where s are cosines
    to the anchor. It is from Patel et al., Recall@k Surrogate Loss with Large Batches and Similarity Mixup, 2022. The
    divisor `min(k, P)` is from the authors' code, which also limits the sum at k.

    The loss needs large batches: the paper has batches of 392 to 4,000 images with 4 per class. `--pieces` embeds
    such a batch in parts that fit in memory. For small datasets, mix similarities (SiMix): `mixtures=2` adds two
    virtual images per image, on random points between it and other images of its class, as queries and as
    neighbors. Memory grows with the square of the number of images, virtual ones included.

    Args:
        ks: Sequence of integers. The numbers k of first neighbors. Defaults to `(1, 2, 4, 8, 16)`.
        temperature: Float. The paper's τ2, the width of the sigmoids that count ranks. Defaults to `0.01`.
        rank_temperature: Float. The paper's τ1, the width of the sigmoids of `k - r`. Defaults to `1.0`.
        include_query: Boolean. Whether the anchor itself counts in ranks, as in the authors' code. Every rank is then
            higher by almost 1. Defaults to `False`.
        mixtures: Integer. Number of virtual images per image. With 4 images per class, the paper's code has one for
            each of the 6 pairs; `mixtures=2` mixes the same pairs, two of them twice. If 0, similarities are not
            mixed. Otherwise, the layer of the loss draws the random numbers, so in plain Keras, the model that you
            train ends with it: `loss.make_layer()(embeddings)`. Defaults to `0`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels.
        embeddings: `[B, d]` of any length, or the output `[B, 1, d + mixtures]` of the layer.
        queries: Integer or `None`. Number of anchors, which are the first rows. If `None`, every row is an anchor.

    Returns:
        `[B]`, one loss per anchor, the mean of the losses of the image and its virtual images. Anchors without a
        positive or without a negative have a loss of 0.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    tfdml.losses.RecallAtK(ks=(1, 2))(labels, embeddings)  # 0.5
    ```
    """

    ks: Annotated[Sequence[int], several(integer(1))] = (1, 2, 4, 8, 16)
    temperature: Positive = 0.01
    rank_temperature: Positive = 1.0
    include_query: bool = False
    mixtures: Annotated[int, integer(0)] = 0

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = self.check_input(labels, embeddings)
        if not self.mixtures:
            return self._values(cosines(embeddings, queries), labels, queries)
        rows, counts = unit_length(embeddings[:, 0, : -self.mixtures]), [ops.ones_like(labels, dtype="bool")]
        mixed = [rows]
        for number in range(self.mixtures):
            partners, share = _partners(labels, number + 1), embeddings[:, 0, number - self.mixtures, None]
            mixed.append(share * rows + (1.0 - share) * ops.take(rows, partners, axis=0))
            counts.append(partners != ops.arange(ops.shape(labels)[0], dtype="int32"))
        counts, each = ops.concatenate(counts), 1 + self.mixtures
        values = self._values(dot_products(ops.concatenate(mixed)), ops.tile(labels, [each]), None, counts)
        values, counts = ops.reshape(values, (each, -1)), ops.reshape(ops.cast(counts, values.dtype), (each, -1))
        return ops.sum(values, axis=0) / ops.sum(counts, axis=0)

    def _values(self, similarities, labels, queries, counts=None):
        """Returns the loss of each row of similarities `[Q, N]`, with only the columns and rows that count."""
        scores = similarities / self.temperature
        positives, negatives = positive_pairs(labels, queries), negative_pairs(labels, queries)
        if counts is not None:
            both = ops.logical_and(counts[:, None], counts[None, :])
            positives, negatives = ops.logical_and(positives, both), ops.logical_and(negatives, both)
        positives = ops.logical_and(positives, ops.any(negatives, axis=1, keepdims=True))
        if self.include_query:
            itself = ops.logical_not(other_rows(labels, queries))
            negatives = ops.logical_or(negatives, itself)
        found = ops.maximum(ops.sum(ops.cast(positives, scores.dtype), axis=1, keepdims=True), 1.0)
        ks = ops.convert_to_tensor(self.ks, dtype=scores.dtype)[None, :]
        weights = found / (len(self.ks) * ops.minimum(ks, found))

        def of_ranks(rank, wrong):
            within = ops.sigmoid((ks - (rank + wrong)[:, None]) / self.rank_temperature)
            slope = ops.sum(weights * within * (1.0 - within), axis=1) / self.rank_temperature
            return 1.0 - ops.sum(weights * within, axis=1), slope, slope

        return with_slopes(scores, *ranking_loss_and_slopes(ops.stop_gradient(scores), positives, negatives, of_ranks))

    @property
    def refuses_memory(self):
        """The reason why the loss cannot use cross-batch memory if it mixes similarities, or else `None`."""
        return "it mixes the images of a batch" if self.mixtures else None

    @property
    def has_statistics(self):
        """Whether there are statistics, which would need other random numbers if similarities are mixed."""
        return not self.mixtures

    def statistics(self, labels, embeddings):
        return {} if self.mixtures else super().statistics(labels, embeddings)

    def make_layer(self):
        return MixingShares(self.mixtures) if self.mixtures else None

    def check_input(self, labels, embeddings):
        if not self.mixtures:
            return check_pairs_input(labels, embeddings)
        embeddings = ops.convert_to_tensor(embeddings)
        if len(embeddings.shape) != 3 or embeddings.shape[1] != 1:
            raise ValueError(
                f"RecallAtK(mixtures={self.mixtures}) needs embeddings followed by random numbers. Expected shape "
                f"[batch, 1, dim + {self.mixtures}]. Received: shape={tuple(embeddings.shape)}. End the model that you "
                "train with the layer of the loss: keras.Model(inputs, loss.make_layer()(embeddings))."
            )
        labels, rows = check_pairs_input(labels, embeddings[:, 0])
        check_class_numbers(labels)
        return labels, rows[:, None]


def _partners(labels, number):
    """Returns the row `[B]` that comes `number` rows of its class after each row, in a circle."""
    place, size = places_in_class(labels)
    same = labels[:, None] == labels[None, :]
    wanted = ops.logical_and(same, place[None, :] == ((place + number) % size)[:, None])
    return ops.cast(ops.argmax(ops.cast(wanted, "int32"), axis=1), "int32")

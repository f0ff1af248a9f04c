"""Margin loss."""

from dataclasses import KW_ONLY
from typing import Literal

from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import distances
from tfdml.functional.pairs import (
    Cutoff,
    LossCutoff,
    check_cutoffs,
    nearest_beyond,
    negative_pairs,
    negative_weights,
    positive_pairs,
)
from tfdml.functional.statistics import mined_pairs
from tfdml.layers.proxies import ClassMargins
from tfdml.losses.base import EmbeddingLoss
from tfdml.registry import register
from tfdml.registry.arguments import Count, NotNegative


@register("loss", "margin")
class Margin(EmbeddingLoss):
    """Margin loss: distances of a class below a boundary, others above it; the boundary fixed or learned.

    A pair of anchor i costs `max(0, margin + y_ij (D_ij - beta_i))`, where y_ij is 1 within a class and -1 between
    classes, and D are Euclidean distances; each triplet costs `nu beta_i` as well (Wu et al., Sampling Matters in Deep
    Embedding Learning, 2017). So an anchor's class shall be nearer than `beta - margin`, others farther than
    `beta + margin`. The pairs are those of triplets, which `mining` chooses:

    - `distance_weighted`: every positive with one negative, drawn by distance, for embeddings at unit length. Nothing
      is drawn here: a negative counts with its probability, as it does on average over draws, without their noise.
    - `nearest`: as many negatives as the anchor has positives, the nearest ones at a distance of `cutoff` or more, each
      with one positive; fewer where there are fewer, and then each positive counts by its share of them.
    - `all`: every positive with every negative; a pair counts once for each triplet that it is in.

    The paper sums. As in its authors' code, the loss of a batch is the sum over pairs divided by the number of pairs
    whose hinge is not 0, at least by 1. Anchors' values are scaled so that their mean is this loss.

    Example: `model.compile(optimizer="adam", loss=tfdml.losses.Margin(beta=1.2))`.

    A boundary that is learned is a variable of the layer that `make_layer` gives. The models of `tfdml.methods` make it
    themselves; in plain Keras the model ends with it, `outputs = loss.make_layer()(embeddings, labels)`, and the loss
    takes its `[B, 1, d + 1]`. A label that is no class is an error, or NaN in a compiled function.

    Args:
        beta: the boundary, or where it begins.
        margin: how far from the boundary distances shall keep.
        learn_beta: `no` (it is fixed), `one` for all classes, or `per_class`.
        nu: weight of the boundary itself, which it draws downwards; it counts only where the boundary is learned.
        cutoff: of `nearest`, and of `distance_weighted`: see `negative_weights` in
            `tfdml.functional.pairs`.
        nonzero_loss_cutoff: of `distance_weighted`, see `negative_weights`.
        mining: `distance_weighted`, `nearest` or `all`.
        classes: number of classes, for `per_class`; the training command fills it in.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` class numbers.
        embeddings: `[B, d]`, or what the layer gives.
        queries: number of anchors, which are the first rows; None: every row is one.

    Returns:
        `[B]`; 0 for an anchor without a positive or without a negative.
    """

    beta: NotNegative = 1.2
    margin: NotNegative = 0.2
    learn_beta: Literal["no", "one", "per_class"] = "no"
    nu: NotNegative = 0.0
    cutoff: Cutoff = 0.5
    nonzero_loss_cutoff: LossCutoff = 1.4
    mining: Literal["distance_weighted", "nearest", "all"] = "distance_weighted"
    _: KW_ONLY
    classes: Count | None = None

    takes_queries = True

    def check_arguments(self):
        check_cutoffs(self.cutoff, self.nonzero_loss_cutoff)
        unused = {"nearest": ["nonzero_loss_cutoff"], "all": ["cutoff", "nonzero_loss_cutoff"]}
        self.warn_of_unused(unused.get(self.mining, []), "mining")
        if self.learn_beta == "no":
            self.warn_of_unused(["nu"], "learn_beta")

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = self.check_input(labels, embeddings)
        # The weight of a boundary that is fixed would only change the value.
        beta, nu = self.beta, 0.0
        if self.learn_beta != "no":
            embeddings, beta, nu = embeddings[:, 0, :-1], embeddings[:, 0, -1:], self.nu
        distance = distances(embeddings, queries=queries)
        pulls, pushes = self._counts(labels, distance, ops.shape(embeddings)[1], queries)
        pull = ops.maximum(self.margin + distance - beta, 0.0)
        push = ops.maximum(self.margin - distance + beta, 0.0)
        active = ops.sum(pulls * ops.cast(pull > 0, pulls.dtype) + pushes * ops.cast(push > 0, pushes.dtype))
        values = ops.sum(pulls * (pull + nu * beta) + pushes * push, axis=1)
        # Fewer than one expected pair: most draws have no pair.
        share = ops.where(active > 0, 1.0 / ops.maximum(active, 1.0), 0.0)
        return values * ops.cast(ops.shape(distance)[0], distance.dtype) * ops.stop_gradient(share)

    def _counts(self, labels, distance, dim, queries=None):
        """In how many triplets a pair is, `[B, B]` of positives and of negatives."""
        negatives = negative_pairs(labels, queries)
        positives = ops.cast(positive_pairs(labels, queries), distance.dtype)
        count = ops.sum(positives, axis=1, keepdims=True)
        if self.mining == "all":
            draws = ops.cast(negatives, distance.dtype)
        elif self.mining == "nearest":
            nearest = nearest_beyond(distance, negatives, count, self.cutoff)
            draws = ops.cast(nearest, distance.dtype) / ops.maximum(count, 1.0)
        else:
            cutoffs = {"cutoff": self.cutoff, "nonzero_loss_cutoff": self.nonzero_loss_cutoff}
            draws = negative_weights(distance, negatives, dim, **cutoffs)
        # A positive with every negative drawn, and the other way round.
        return positives * ops.sum(draws, axis=1, keepdims=True), draws * count

    @property
    def refuses_memory(self):
        """Why it does, where it learns a boundary."""
        return None if self.learn_beta == "no" else "the boundary that it learns comes with the images of a batch"

    def make_layer(self):
        if self.learn_beta == "no":
            return None
        if self.learn_beta == "one":
            return ClassMargins(1, beta=self.beta)
        if self.classes is None:
            raise ValueError(
                "Margin needs the number of training classes to learn one boundary of each: "
                "Margin(learn_beta='per_class', classes=...)."
            )
        return ClassMargins(self.classes, beta=self.beta)

    def check_input(self, labels, embeddings):
        if self.learn_beta == "no":
            return super().check_input(labels, embeddings)
        embeddings = ops.convert_to_tensor(embeddings)
        if len(embeddings.shape) != 3 or embeddings.shape[1] != 1:
            raise ValueError(
                f"Margin(learn_beta={self.learn_beta!r}) takes embeddings with the margins of their classes behind "
                f"them: expected shape [batch, 1, dim + 1], received shape {tuple(embeddings.shape)}. The layer "
                "ClassMargins puts them there, with which the model that is trained has to end: "
                "loss.make_layer()(embeddings, labels), where `loss` is this Margin."
            )
        labels, rows = check_pairs_input(labels, embeddings[:, 0])
        return labels, rows[:, None]

    def label_classes(self, embeddings):
        return self.classes if self.learn_beta == "per_class" else None

    def statistics(self, labels, embeddings):
        """Of the pairs of triplets that cost something, see `mined_pairs`; boundaries are means over anchors."""
        labels, rows = self.check_input(labels, embeddings)
        beta = ops.full((1, 1), self.beta, dtype=rows.dtype)
        if self.learn_beta != "no":
            rows, beta = rows[:, 0, :-1], rows[:, 0, -1:]
        distance = distances(rows)
        pulls, pushes = self._counts(labels, distance, ops.shape(rows)[1])
        positives = ops.logical_and(pulls > 0, distance > beta - self.margin)
        negatives = ops.logical_and(pushes > 0, distance < beta + self.margin)
        middle = ops.mean(beta)
        boundaries = {"positive_boundary": middle - self.margin, "negative_boundary": middle + self.margin}
        return {**mined_pairs(distance, positives, negatives), **boundaries}

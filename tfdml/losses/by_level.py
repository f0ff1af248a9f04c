"""A loss at each level of a hierarchy."""

from collections.abc import Sequence
from typing import Annotated

import keras

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.pairs import finest, is_graded, levels_of
from tfdml.losses.outer_loss import OuterLoss
from tfdml.losses.pair_loss import pair_loss, read_pair_loss
from tfdml.registry import register
from tfdml.registry.arguments import number, optional, read_by, several
from tfdml.registry.loss_hooks import hooks_of


@register("loss", "by_level")
class ByLevel(OuterLoss):
    """A loss at each level of a hierarchy of classes: the weighted sum over levels, from coarse to fine.

    The loss of an anchor is `sum_l w_l L_l`, L_l being the loss with the categories of level l in place of classes. So
    images of one category are drawn together, and those of one class more so. With one level it is the loss.

    Example: `model.compile(loss=tfdml.losses.ByLevel("triplet", weights=(0.3, 1.0)))`, for labels `[B, 2]`.

    Args:
        loss: the loss, or its spec: one on pairs, without variables.
        weights: of each level, from coarse to fine; None: all alike, which sum to 1.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B, L]` categories from coarse to fine; the loss takes others as they are.
        embeddings: `[B, d]`.

    Returns:
        `[B]`; 0 where the loss is 0 at each level.
    """

    loss: Annotated[str | keras.losses.Loss | dict, read_by(read_pair_loss, "a loss or its spec")] = "triplet"
    weights: Annotated[Sequence[float] | None, optional(several(number(at_least=0)))] = None

    takes_levels = True
    refuses_memory = "it compares more than the class of images"

    def check_arguments(self):
        self.loss = pair_loss(self.loss, "ByLevel")

    def call(self, labels, embeddings):
        labels, embeddings = check_pairs_input(labels, embeddings)
        if is_graded(labels):
            return self.loss.call(labels, embeddings)
        levels = levels_of(labels)
        count = levels.shape[1]
        weights = (1.0 / count,) * count if self.weights is None else self.weights
        if len(weights) != count:
            raise ValueError(f"Expected a weight for each of {count} levels, received weights={tuple(weights)}.")
        return sum(weight * self.loss.call(levels[:, place], embeddings) for place, weight in enumerate(weights))

    def statistics(self, labels, embeddings):
        """Returns the statistics of the loss at the finest level."""
        labels, embeddings = self.check_input(labels, embeddings)
        return hooks_of(self.loss).statistics(labels if is_graded(labels) else finest(labels), embeddings)

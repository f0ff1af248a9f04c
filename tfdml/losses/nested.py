"""Nested loss: the first dimensions of an embedding are an embedding, too."""

from collections.abc import Sequence
from typing import Annotated

import keras
from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import unit_length
from tfdml.losses.outer_loss import OuterLoss
from tfdml.losses.pair_loss import pair_loss, read_pair_loss
from tfdml.registry import register
from tfdml.registry.arguments import integer, read_by, several
from tfdml.registry.loss_hooks import hooks_of


@register("loss", "nested")
class Nested(OuterLoss):
    """Nested loss: the mean of a loss over the first 16, 32, ... dimensions, so that these are embeddings, too.

    The loss of an anchor is `mean_d L(x_1..d / |x_1..d|)`, the mean of a loss L over the first d dimensions: equation
    (1) of Matryoshka Representation Learning (Kusupati et al., NeurIPS 2022) with equal weights of all d, divided by
    their number; d is each of `dims`, and the size of the embedding, which always counts. The paper's L is that of a
    classifier, here it compares pairs.

    Example: `model.compile(loss=tfdml.losses.Nested("triplet(margin=0.1)", dims=(16, 32, 64)))`.

    After training, keep the first N of `dims` and bring them to unit length: `python -m tfdml.export --dims=N` does.

    Args:
        loss: the loss L, or its spec: one on pairs, without variables.
        dims: the numbers d of first dimensions, increasing, at most D.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` class numbers.
        embeddings: `[B, D]`, of any length; their first d dimensions are brought to unit length.
        queries: number of anchors, which are the first rows; None: every row is one.

    Returns:
        `[B]`; 0 where the loss is 0 for each d.
    """

    loss: Annotated[str | keras.losses.Loss | dict, read_by(read_pair_loss, "a loss or its spec")]
    dims: Annotated[Sequence[int], several(integer(1))]

    def check_arguments(self):
        self.loss = pair_loss(self.loss, "Nested")
        _check(self.dims)

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        size = embeddings.shape[1]
        _check(self.dims, size)
        compared = () if queries is None else (queries,)
        nested = self.dims if self.dims[-1] == size else (*self.dims, size)
        values = [self.loss.call(labels, unit_length(embeddings[:, :dim]), *compared) for dim in nested]
        return ops.mean(ops.stack(values), axis=0)

    def statistics(self, labels, embeddings):
        """Returns the statistics of the loss on the whole embedding."""
        labels, embeddings = self.check_input(labels, embeddings)
        _check(self.dims, embeddings.shape[1])
        return hooks_of(self.loss).statistics(labels, unit_length(embeddings))

    @property
    def refuses_memory(self):
        """Why the loss does."""
        return hooks_of(self.loss).refuses_memory

    @property
    def nested_dims(self):
        """The `dims`."""
        return self.dims


def _check(dims, size=None):
    if any(low >= high for low, high in zip(dims, dims[1:], strict=False)):
        raise ValueError(f"Expected dims that increase, such as (16, 32, 64), received dims={dims}.")
    if size is not None and dims[-1] > size:
        raise ValueError(f"Expected dims of at most {size}, the size of the embedding, received dims={dims}.")

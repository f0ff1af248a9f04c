"""Cross-entropy of a softmax over class proxies, also if the similarities are computed in parts."""

import math
from collections.abc import Callable

from keras import ops

from tfdml.functional.distances import known_gradient
from tfdml.functional.pairs import nan_outside
from tfdml.registry.arguments import Tensor


def own_against_others(
    labels: Tensor,
    similarities: Tensor,
    *,
    scale: float = 1.0,
    own: Callable[[Tensor], Tensor] = lambda cosines: cosines,
) -> Tensor:
    """Computes `log(1 + sum_j exp(scale (similarities_j - own)))` `[B]` over each row's other classes j.

    This is the cross-entropy of a softmax over `[B, C]`, in full precision even for rows with a very small loss. NaN if
    a label is not from 0 to C - 1, and 0 if there is no other class.

    Args:
        labels: `[B]` class numbers.
        similarities: `[B, C]`.
        scale: factor of all similarities.
        own: function that replaces the similarities to the anchors' classes, `[B]`.
    """
    if similarities.shape[1] == 1:
        return nan_outside(labels, 1, 0.0 * similarities[:, 0])
    return ops.softplus(others_over_own(labels, similarities, scale=scale, own=own))


def others_over_own(
    labels: Tensor,
    similarities: Tensor,
    *,
    scale: float = 1.0,
    own: Callable[[Tensor], Tensor] = lambda cosines: cosines,
) -> Tensor:
    """Computes `log sum_j exp(scale (similarities_j - own))` `[B]`; arguments as in `own_against_others`.

    NaN if a label is not from 0 to C - 1. Needs two classes or more.
    """
    of_own, highest, log_sum = ops.unstack(_split(labels, similarities, scale), 3, axis=0)
    return nan_outside(labels, ops.shape(similarities)[1], scale * (highest - own(of_own)) + log_sum)


def _split(labels, similarities, scale):
    """`[3, B]`: a row's similarity to its own class, the highest h to another, `log sum_j exp(scale (s_j - h))`.

    The gradient of h is omitted, because h cancels out of `scale h + log sum_j exp(scale (s_j - h))`.
    """
    rows, classes = ops.shape(similarities)
    # Indices must be valid; the values of wrong labels are replaced by NaN later.
    columns = ops.clip(ops.cast(labels, "int32"), 0, classes - 1)
    places = ops.stack([ops.arange(rows, dtype="int32"), columns], axis=1)

    @known_gradient
    def split(similarities):
        # Reshaped, because it may be a variable.
        own = ops.take_along_axis(ops.reshape(similarities, (-1, classes)), columns[:, None], axis=1)[:, 0]
        others = ops.scatter_update(similarities, places, ops.full_like(own, -math.inf))
        highest = ops.max(others, axis=1)
        exponentials = ops.exp(scale * (others - highest[:, None]))
        total = ops.sum(exponentials, axis=1)

        def gradient(upstream):
            of_own, _, of_log_sum = ops.unstack(upstream, 3, axis=0)
            # One pass over [B, C]; automatic differentiation takes eight.
            return ops.scatter_update(exponentials * (scale * of_log_sum / total)[:, None], places, of_own)

        return ops.stack([own, highest, ops.log(total)], axis=0), gradient

    return split(similarities)


# Below all cosines.
LOWEST = -2.0


def own_and_others(labels: Tensor, similarities: Tensor, *, scale: float, classes: int | Tensor) -> Tensor:
    """Computes `[2, B]`: similarities to each row's class, and `log sum_j exp(scale s_j) / scale` over the others.

    These are what `own_against_others` needs of a part of the classes: the second stands for all its other classes in
    one. They are 0 where a row's class is not in the part, and minus infinity where no other class is.

    Args:
        labels: `[B]` int32; number of the class in the part, and any other number for a class that is not.
        similarities: `[B, C]` cosines.
        scale: factor of all similarities.
        classes: number of classes in the part, the first of the C; an integer or a tensor.
    """
    rows, columns = ops.shape(similarities)
    is_here = ops.logical_and(labels >= 0, labels < classes)
    places = ops.clip(labels, 0, columns - 1)
    pairs = ops.stack([ops.arange(rows, dtype="int32"), places], axis=1)
    is_none = ops.arange(columns, dtype="int32") >= classes

    def at_places(values):
        return ops.take_along_axis(values, places[:, None], axis=1)[:, 0]

    @known_gradient
    def summed_up(similarities):
        own = at_places(similarities)
        others = ops.scatter_update(similarities, pairs, ops.where(is_here, -math.inf, own))
        others = ops.where(is_none[None, :], -math.inf, others)
        # Not minus infinity, whose difference to itself is NaN.
        highest = ops.maximum(ops.max(others, axis=1), LOWEST)
        exponentials = ops.exp(scale * (others - highest[:, None]))
        total = ops.sum(exponentials, axis=1)

        def gradient(upstream):
            of_own, of_others = ops.unstack(upstream, 2, axis=0)
            # Written so that NaN stays NaN.
            shares = ops.where(total <= 0.0, 0.0, of_others / ops.where(total <= 0.0, 1.0, total))
            passed = exponentials * shares[:, None]
            return ops.scatter_update(passed, pairs, at_places(passed) + ops.where(is_here, of_own, 0.0))

        value = ops.stack([ops.where(is_here, own, 0.0), highest + ops.log(total) / scale], axis=0)
        return value, gradient

    return summed_up(similarities)

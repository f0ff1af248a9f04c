"""Cross-entropy of a softmax over class proxies, including similarities that are computed in parts."""

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

    This is the cross-entropy of a softmax over `[B, C]`, in full precision even for rows with a very small loss. It is
    NaN if a label is not from 0 to C - 1, and 0 if there is only one class.

    Args:
        labels: `[B]` integer class labels.
        similarities: `[B, C]`.
        scale: factor of all similarities.
        own: function that changes the similarities to the anchors' own classes, `[B]`.
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
    """Computes `log sum_j exp(scale (similarities_j - own))` `[B]` with the arguments of `own_against_others`.

    It is NaN if a label is not from 0 to C - 1. There must be at least two classes.
    """
    of_own, highest, log_sum = ops.unstack(_split(labels, similarities, scale), 3, axis=0)
    return nan_outside(labels, ops.shape(similarities)[1], scale * (highest - own(of_own)) + log_sum)


def _split(labels, similarities, scale):
    """Returns `[3, B]`: similarity to a row's own class, the highest other one h, `log sum_j exp(scale (s_j - h))`.

    The gradient of h is omitted, because h cancels out of `scale h + log sum_j exp(scale (s_j - h))`.
    """
    rows, classes = ops.shape(similarities)
    # Indices must be valid. The values of wrong labels become NaN later.
    columns = ops.clip(ops.cast(labels, "int32"), 0, classes - 1)
    places = ops.stack([ops.arange(rows, dtype="int32"), columns], axis=1)

    @known_gradient
    def split(similarities):
        # The reshape turns a variable into a tensor.
        own = ops.take_along_axis(ops.reshape(similarities, (-1, classes)), columns[:, None], axis=1)[:, 0]
        others = ops.scatter_update(similarities, places, ops.full_like(own, -math.inf))
        highest = ops.max(others, axis=1)
        exponentials = ops.exp(scale * (others - highest[:, None]))
        total = ops.sum(exponentials, axis=1)

        def gradient(upstream):
            of_own, _, of_log_sum = ops.unstack(upstream, 3, axis=0)
            # This needs one pass over [B, C]. Automatic differentiation needs eight.
            return ops.scatter_update(exponentials * (scale * of_log_sum / total)[:, None], places, of_own)

        return ops.stack([own, highest, ops.log(total)], axis=0), gradient

    return split(similarities)


# A value below all cosines.
LOWEST = -2.0


def own_and_others(labels: Tensor, similarities: Tensor, *, scale: float, classes: int | Tensor) -> Tensor:
    """Computes `[2, B]`: similarities to each row's class, and `log sum_j exp(scale s_j) / scale` over other classes j.

    With these, `own_against_others` can be computed if the classes are divided into parts. The second value counts as
    a single class that replaces all other classes of the part. The first value is 0 if a row's class is not in the
    part. The second is minus infinity if the part has no other class.

    Args:
        labels: `[B]` int32 index of the class in the part, or any number out of range for a class in another part.
        similarities: `[B, C]` cosines.
        scale: factor of all similarities.
        classes: number of the first columns that are classes of the part; an integer or a tensor.
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
        # The limit replaces minus infinity, because its difference to itself would be NaN.
        highest = ops.maximum(ops.max(others, axis=1), LOWEST)
        exponentials = ops.exp(scale * (others - highest[:, None]))
        total = ops.sum(exponentials, axis=1)

        def gradient(upstream):
            of_own, of_others = ops.unstack(upstream, 2, axis=0)
            # `<=` is False for NaN, so NaN is kept.
            shares = ops.where(total <= 0.0, 0.0, of_others / ops.where(total <= 0.0, 1.0, total))
            passed = exponentials * shares[:, None]
            return ops.scatter_update(passed, pairs, at_places(passed) + ops.where(is_here, of_own, 0.0))

        value = ops.stack([ops.where(is_here, own, 0.0), highest + ops.log(total) / scale], axis=0)
        return value, gradient

    return summed_up(similarities)

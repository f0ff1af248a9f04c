"""A softmax over classes whose similarities are computed in parts."""

import math

from keras import ops

from tfdml.functional.known_gradient import known_gradient
from tfdml.registry.arguments import Tensor

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

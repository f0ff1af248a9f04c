"""Logarithms of sums of exponentials over masked rows, without overflow."""

import math

from keras import ops

from tfdml.functional.known_gradient import known_gradient
from tfdml.registry.arguments import Tensor


def log_one_plus_sum_exp(mask: Tensor, exponents: Tensor) -> Tensor:
    """Computes `log(1 + sum exp(exponents))` `[B]` over the elements of each row `[B, N]` where the mask is True."""

    @known_gradient
    def log_sum(exponents):
        highest, exponentials, total = _sum_exp(mask, exponents, at_least=0.0)
        below_one = ops.expm1(-highest)

        def gradient(upstream):
            return exponentials * (upstream / (1.0 + below_one + total))[:, None]

        # Written so that a sum far below 1 is not lost in rounding.
        return highest + ops.log1p(below_one + total), gradient

    return log_sum(exponents)


def log_sum_exp(mask: Tensor, exponents: Tensor) -> Tensor:
    """Computes `log(sum exp(exponents))` `[B]` over the elements where the mask `[B, N]` is True; 0 if none is."""

    @known_gradient
    def log_sum(exponents):
        highest, exponentials, total = _sum_exp(mask, exponents)
        # The total of no exponentials; otherwise it is 1 or more.
        total = ops.where(total == 0.0, 1.0, total)

        def gradient(upstream):
            return exponentials * (upstream / total)[:, None]

        return highest + ops.log(total), gradient

    return log_sum(exponents)


def masked_softmax(mask: Tensor, exponents: Tensor) -> Tensor:
    """Computes the softmax `[B, N]` of each row over the elements where the mask is True; 0 elsewhere."""
    _, exponentials, total = _sum_exp(mask, exponents)
    return exponentials / ops.where(total == 0.0, 1.0, total)[:, None]


def _sum_exp(mask, exponents, at_least=-math.inf):
    """Returns the highest exponent h `[B]`, `exp(exponents - h)` `[B, N]` (masked: 0), and their sums `[B]`."""
    # Masked elements could overflow, so they are removed before the exponential, not after.
    masked = ops.where(mask, exponents, -math.inf)
    # It cancels out of the results, so it needs no gradient.
    highest = ops.stop_gradient(ops.maximum(ops.max(masked, axis=1), at_least))
    highest = ops.where(highest == -math.inf, 0.0, highest)
    exponentials = ops.exp(masked - highest[:, None])
    return highest, exponentials, ops.sum(exponentials, axis=1)

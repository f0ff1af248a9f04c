"""Logarithms of sums of exponentials over some of each row, without overflow."""

import math

from keras import ops

from tfdml.functional.known_gradient import known_gradient


def log_one_plus_sum_exp(mask, exponents):
    """`log(1 + sum exp(exponents))` `[B]` over the places of each row `[B, N]` where the mask is True."""

    @known_gradient
    def log_sum(exponents):
        highest, exponentials, total = _sum_exp(mask, exponents, at_least=0.0)
        below_one = ops.expm1(-highest)

        def gradient(upstream):
            return exponentials * (upstream / (1.0 + below_one + total))[:, None]

        # Written so that a sum far below 1 is not lost beside it.
        return highest + ops.log1p(below_one + total), gradient

    return log_sum(exponents)


def log_sum_exp(mask, exponents):
    """`log(sum exp(exponents))` `[B]` over the places of each row `[B, N]` where the mask is True; 0 where none is."""

    @known_gradient
    def log_sum(exponents):
        highest, exponentials, total = _sum_exp(mask, exponents)
        # Of no exponentials; of others the total is 1 or more.
        total = ops.where(total == 0.0, 1.0, total)

        def gradient(upstream):
            return exponentials * (upstream / total)[:, None]

        return highest + ops.log(total), gradient

    return log_sum(exponents)


def masked_softmax(mask, exponents):
    """`exp(exponents) / sum exp(exponents)` `[B, N]` over places of each row where the mask is True, 0 elsewhere."""
    _, exponentials, total = _sum_exp(mask, exponents)
    return exponentials / ops.where(total == 0.0, 1.0, total)[:, None]


def _sum_exp(mask, exponents, at_least=-math.inf):
    """The highest exponent h `[B]`, `exp(exponents - h)` `[B, N]` with 0 outside of the mask, and their sums `[B]`."""
    # What is masked could overflow, so it is taken out before the exponential, not after.
    masked = ops.where(mask, exponents, -math.inf)
    # It cancels out of the results, so no gradient needs to go through it.
    highest = ops.stop_gradient(ops.maximum(ops.max(masked, axis=1), at_least))
    highest = ops.where(highest == -math.inf, 0.0, highest)
    exponentials = ops.exp(masked - highest[:, None])
    return highest, exponentials, ops.sum(exponentials, axis=1)

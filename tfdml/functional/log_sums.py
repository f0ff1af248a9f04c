"""Logarithms of sums of exponentials over some of each row, without overflow."""

from keras import ops


def log_one_plus_sum_exp(mask, exponents):
    """`log(1 + sum exp(exponents))` `[B]` over the places of each row `[B, N]` where the mask is True."""
    highest = ops.maximum(_highest(mask, exponents), 0.0)
    return highest + ops.log(ops.exp(-highest) + _sum_exp(mask, exponents, highest))


def log_sum_exp(mask, exponents):
    """`log(sum exp(exponents))` `[B]` over the places of each row `[B, N]` where the mask is True; 0 where none is."""
    highest = _highest(mask, exponents)
    total = _sum_exp(mask, exponents, highest)
    return highest + ops.log(ops.where(ops.any(mask, axis=1), total, 1.0))


def _highest(mask, exponents):
    lowest = ops.min(exponents, axis=1, keepdims=True)
    # It cancels out of the result, so no gradient needs to go through it.
    highest = ops.stop_gradient(ops.max(ops.where(mask, exponents, lowest), axis=1))
    return ops.where(ops.any(mask, axis=1), highest, 0.0)


def _sum_exp(mask, exponents, highest):
    # What is masked could overflow, so it is taken out before the exponential, not after.
    shifted = ops.where(mask, exponents - highest[:, None], 0.0)
    return ops.sum(ops.where(mask, ops.exp(shifted), 0.0), axis=1)

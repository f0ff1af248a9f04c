"""Logarithms of sums of exponentials over some of each row, without overflow."""

from keras import ops


def log_one_plus_sum_exp(mask, exponents):
    """`log(1 + sum exp(exponents))` `[B]` over the places of each row `[B, N]` where the mask is True."""
    highest = ops.maximum(_highest(mask, exponents), 0.0)
    # Written so that a sum far below 1 is not lost beside it.
    return highest + ops.log1p(ops.expm1(-highest) + _sum_exp(mask, exponents, highest))


def log_sum_exp(mask, exponents):
    """`log(sum exp(exponents))` `[B]` over the places of each row `[B, N]` where the mask is True; 0 where none is."""
    highest = _highest(mask, exponents)
    total = _sum_exp(mask, exponents, highest)
    return highest + ops.log(ops.where(ops.any(mask, axis=1), total, 1.0))


def masked_softmax(mask, exponents):
    """`exp(exponents) / sum exp(exponents)` `[B, N]` over places of each row where the mask is True, 0 elsewhere."""
    exponentials = _exponentials(mask, exponents, _highest(mask, exponents))
    total = ops.sum(exponentials, axis=1, keepdims=True)
    return exponentials / ops.where(ops.any(mask, axis=1, keepdims=True), total, 1.0)


def _highest(mask, exponents):
    lowest = ops.min(exponents, axis=1, keepdims=True)
    # It cancels out of the result, so no gradient needs to go through it.
    highest = ops.stop_gradient(ops.max(ops.where(mask, exponents, lowest), axis=1))
    return ops.where(ops.any(mask, axis=1), highest, 0.0)


def _sum_exp(mask, exponents, highest):
    return ops.sum(_exponentials(mask, exponents, highest), axis=1)


def _exponentials(mask, exponents, highest):
    # What is masked could overflow, so it is taken out before the exponential, not after.
    shifted = ops.where(mask, exponents - highest[:, None], 0.0)
    return ops.where(mask, ops.exp(shifted), 0.0)

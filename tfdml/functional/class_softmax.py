"""What softmax losses over class proxies share: an anchor's own class against all others."""

from keras import ops

from tfdml.functional.log_sums import log_one_plus_sum_exp
from tfdml.functional.pairs import class_mask, nan_outside


def of_own_class(labels, similarities):
    """The value `[B]` of each row of `[B, C]` in its own class; 0 where the label is not from 0 to C - 1."""
    own = class_mask(labels, similarities.shape[1])
    return ops.sum(ops.where(own, similarities, 0.0), axis=1)


def own_against_others(labels, similarities, own, *, scale=1.0):
    """`log(1 + sum_j exp(scale (similarities_j - own)))` `[B]` over each row's other classes j.

    It is the cross-entropy of a softmax in which `own` `[B]` stands in for the similarity to the own class; no number
    where a label is not from 0 to C - 1, 0 where there is no other class.
    """
    classes = similarities.shape[1]
    others = ops.logical_not(class_mask(labels, classes))
    values = log_one_plus_sum_exp(others, scale * (similarities - own[:, None]))
    return nan_outside(labels, classes, values)

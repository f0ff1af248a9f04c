"""What softmax losses over class proxies share: an anchor's own class against all others."""

from keras import ops

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
    labels = ops.cast(labels, "int32")
    logits = scale * ops.where(class_mask(labels, classes), own[:, None], similarities)
    # Backends have it as one operation, with a gradient of its own. It takes no other labels than classes.
    known = ops.where(ops.logical_and(labels >= 0, labels < classes), labels, 0)
    return nan_outside(labels, classes, ops.sparse_categorical_crossentropy(known, logits, from_logits=True))

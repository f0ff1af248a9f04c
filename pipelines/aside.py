"""Branches that are seldom taken."""

import tensorflow as tf


def aside(function, *arguments):
    """Calls a function of tensors that stands in a seldom taken branch of a `tf.cond`.

    TensorFlow unrolls the branches of a condition into the graph around it and walks through the operations of both
    each time. Set aside, the seldom taken one is a single operation there.
    """
    if tf.executing_eagerly():
        return function(*arguments)
    attributes = {"_noinline": True}
    return tf.function(function, autograph=False, experimental_attributes=attributes)(*arguments)

"""Functions that stand in seldom taken branches of a graph."""

import tensorflow as tf


def seldom(*signature):
    """Decorator of a function of tensors with this signature, to be called in a seldom taken branch of a `tf.cond`.

    TensorFlow unrolls the branches of a condition into the graph around it, walks through the operations of both each
    time, and optimises them anew at the start of every epoch. So decorated, a function is a single operation there.
    """
    return tf.function(input_signature=signature, autograph=False, experimental_attributes={"_noinline": True})

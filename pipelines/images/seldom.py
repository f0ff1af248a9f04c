"""Functions that stand in seldom taken branches of a graph."""

import functools

import tensorflow as tf


def seldom(*signature):
    """Decorator of a function of tensors with this signature, to be called in a seldom taken branch of a `tf.cond`.

    TensorFlow unrolls the branches of a condition into the graph around it, walks through the operations of both each
    time, and makes them anew at the start of every pass. So decorated, a function is a single operation there.
    """

    def decorate(function):
        attributes = {"_noinline": True}
        single = tf.function(function, input_signature=signature, autograph=False, experimental_attributes=attributes)

        # Outside of graphs it is called as it is, whose errors are shorter.
        @functools.wraps(function)
        def call(*arguments):
            return function(*arguments) if tf.executing_eagerly() else single(*arguments)

        return call

    return decorate

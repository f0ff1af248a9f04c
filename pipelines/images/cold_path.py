"""Functions for branches of a graph that are rarely taken."""

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf


def cold_path(*signature: tf.TensorSpec) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator that keeps a function out of the graph around it, for a branch of a `tf.cond` that is rarely taken.

    TensorFlow unrolls the branches of a condition into the graph around it, visits the operations of both each time,
    and builds them again at the start of every pass. A decorated function is a single operation there.

    Args:
        *signature: a `tf.TensorSpec` for each of the function's arguments.
    """

    def decorate(function):
        attributes = {"_noinline": True}
        single = tf.function(function, input_signature=signature, autograph=False, experimental_attributes=attributes)

        # Outside of graphs the function itself is called: its errors are shorter.
        @functools.wraps(function)
        def call(*arguments):
            return function(*arguments) if tf.executing_eagerly() else single(*arguments)

        return call

    return decorate

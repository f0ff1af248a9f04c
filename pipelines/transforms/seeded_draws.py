"""Seeds the random numbers of layers that other packages define."""

import contextlib
import functools
import random

import keras
import numpy as np
import tensorflow as tf

# Operations with these prefixes draw from their own state, or run Python, each time a graph runs.
UNSEEDED = (
    "EagerPyFunc",
    "Multinomial",
    "ParameterizedTruncatedNormal",
    "PyFunc",
    "Random",
    "Rng",
    "Stateful",
    "TruncatedNormal",
)
# These call functions, whose operations are checked themselves.
CALLS = ("StatefulPartitionedCall",)


@contextlib.contextmanager
def drawing_from(seed):
    """While a graph is built, makes all random numbers of Keras and TensorFlow in it depend on this seed, `[2]`.

    Keras' layers draw with `SeedGenerator`, those of keras-cv with `tf.random` and `tf.random.Generator`, whose state
    is lost when a run is resumed.
    """
    number = 0

    def next_seed():
        nonlocal number
        number += 1
        return tf.random.experimental.stateless_fold_in(seed, number)

    @tf.autograph.experimental.do_not_convert
    def uniform(shape, minval=0, maxval=None, dtype=tf.float32, seed=None, name=None):
        del seed
        return tf.random.stateless_uniform(shape, next_seed(), minval, maxval, dtype, name)

    @tf.autograph.experimental.do_not_convert
    def normal(shape, mean=0.0, stddev=1.0, dtype=tf.float32, seed=None, name=None):
        del seed
        return tf.random.stateless_normal(shape, next_seed(), mean, stddev, dtype, name)

    replaced = [
        (keras.random.SeedGenerator, "next", lambda generator, ordered=True: next_seed()),
        (tf.random, "uniform", uniform),
        (tf.random, "normal", normal),
        (tf.random.Generator, "uniform", _without_first(uniform)),
        (tf.random.Generator, "normal", _without_first(normal)),
    ]
    with contextlib.ExitStack() as stack:
        for owner, name, function in replaced:
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, function)
        yield


@contextlib.contextmanager
def refusing_python_draws(owner):
    """Raises an error if Python or NumPy draws random numbers while a graph is built: once for the whole run."""
    before = _python_state()
    yield
    if _python_state() != before:
        raise ValueError(
            f"{owner} draws random numbers with Python: once, and not for each image, and independent of the seed."
        )


def unseeded_operations(graph):
    """Returns the operations of a graph, and of the functions in it, that draw from their own state."""
    definition = graph.as_graph_def()
    nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
    return sorted({node.op for node in nodes if node.op.startswith(UNSEEDED) and node.op not in CALLS})


def _without_first(function):
    return functools.wraps(function)(lambda generator, *arguments, **named: function(*arguments, **named))


def _python_state():
    return random.getstate(), np.random.get_state()[1].tobytes(), np.random.get_state()[2]

"""Streams of random numbers of a run, each with its own key."""

import enum

import tensorflow as tf

from pipelines.sampling.index_shuffle import key_of


class Stream(enum.IntEnum):
    """Purposes of random numbers; negative, because the draws of rows within a class use the class number."""

    CLASSES = -1
    CLUSTERS = -2
    PARTNERS = -3
    ORDER = -4
    SUBSTITUTES = -5
    LEARNERS = -6
    NEIGHBORS = -7
    GROUPS = -8


# The learner of batches while all rows are one cluster.
EVERYTHING = -1


def stream_key(seed, stream, *parts):
    """Returns the key of a stream and of further integers (tensors that broadcast against each other)."""
    return key_of(seed, tf.constant(int(stream), tf.int64), *parts)


def stream_keys(seed, steps, stream=Stream.CLASSES):
    """Returns the key of a stream for each of the steps, `[n]`."""
    return tf.fill(tf.shape(steps), stream_key(seed, stream))


def as_long_as(steps, *scalars):
    """Repeats each scalar for each of the steps, `[n]`."""
    return [tf.fill(tf.shape(steps), scalar) for scalar in scalars]

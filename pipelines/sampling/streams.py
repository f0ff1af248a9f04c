"""Streams of random numbers of a run, each with a key of its own."""

import enum

import tensorflow as tf

from pipelines.sampling.index_shuffle import key_of


class Stream(enum.IntEnum):
    """What random numbers are drawn for; below 0, because rows within classes have the numbers of their classes."""

    CLASSES = -1
    CLUSTERS = -2
    PARTNERS = -3
    ORDER = -4
    SUBSTITUTES = -5


def stream_key(seed, stream, *parts):
    """The key of a stream, and of further integers (tensors that broadcast against each other)."""
    return key_of(seed, tf.constant(int(stream), tf.int64), *parts)


def stream_keys(seed, steps, stream=Stream.CLASSES):
    """The key of a stream for each of the steps, `[n]`."""
    return tf.fill(tf.shape(steps), stream_key(seed, stream))


def as_long_as(steps, *scalars):
    """Each scalar for each of the steps, `[n]`."""
    return [tf.fill(tf.shape(steps), scalar) for scalar in scalars]


def arguments_of(sampler, seed, steps, tables):
    """A sampler's arguments: any integers as int64, and the tables as they are now where none are given."""
    return tf.cast(seed, tf.int64), tf.cast(steps, tf.int64), sampler.tables() if tables is None else tables

"""Which labels of a batch the embeddings of past batches agree with."""

import tensorflow as tf

from tfdml.functional.distances import unit_length
from tfdml.functional.pairs import NO_IMAGE


def agrees(labels, embeddings, names, stored, share):
    """Returns `[B]`: False for the share of rows whose labels are least probable, see `tfdml.memories.Agreement`.

    Args:
        labels: `[B]`, int64.
        embeddings: `[B, d]`.
        names: `[M]` labels of past embeddings; empty places have `NO_IMAGE`.
        stored: `[M, d]` past embeddings.
        share: fraction of the rows whose class is among the past ones.
    """
    classes, centers = _centers(names, unit_length(stored))
    there = tf.not_equal(classes, NO_IMAGE)
    cosines = tf.matmul(unit_length(tf.stop_gradient(embeddings)), centers, transpose_b=True)
    own = tf.logical_and(labels[:, None] == classes[None, :], there)
    probabilities = tf.nn.softmax(tf.where(there, cosines, cosines.dtype.min))
    right = tf.reduce_sum(tf.where(own, probabilities, 0.0), axis=1)
    judged = tf.reduce_any(own, axis=1)
    wrong = tf.cast(share * tf.reduce_sum(tf.cast(judged, tf.float32)), tf.int32)
    least = tf.sort(tf.where(judged, right, 2.0))[wrong]
    return tf.logical_or(tf.logical_not(judged), right >= least)


def _centers(names, stored):
    """Returns labels `[M]` and the means `[M, d]` of their rows; from the number of labels on `NO_IMAGE`, and 0."""
    order = tf.argsort(names)
    names, size = tf.gather(names, order), tf.shape(names)[0]
    numbers = tf.cumsum(tf.concat([[0], tf.cast(names[1:] != names[:-1], tf.int32)], axis=0))
    counts = tf.math.unsorted_segment_sum(tf.ones_like(stored[:, 0]), numbers, size)
    sums = tf.math.unsorted_segment_sum(tf.gather(stored, order), numbers, size)
    # The maximum of nothing is the lowest number.
    return tf.math.unsorted_segment_max(names, numbers, size), sums / tf.maximum(counts, 1.0)[:, None]

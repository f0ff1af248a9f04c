"""Metrics of training beside the loss."""

import numpy as np
import pytest
import tensorflow as tf

from tfdml.methods.step.parts import Measures, measure

LEARNED = tf.constant([0.0, 0.0, 1.0, 1.0])


def test_a_batch_without_positive_pairs_has_no_part_in_their_mean_distance():
    embeddings = tf.constant(np.eye(4), tf.float32)
    measures = Measures()
    for labels in ([0, 0, 1, 2], [0, 1, 2, 3]):
        measured = measure(tf.constant(labels), embeddings, LEARNED)
        found = measures.update(measured | {"loss": tf.constant(1.0)}, rows=4, skips_infinite=False)
    assert float(found["positive_distance"]) == pytest.approx(2**0.5)
    assert float(found["negative_distance"]) == pytest.approx(2**0.5)
    assert float(found["active_anchors"]) == 0.5


def test_means_are_over_rows_and_have_what_was_measured():
    measures = Measures()
    measures.update({"loss": tf.constant(1.0)}, rows=31, skips_infinite=False)
    found = measures.update({"loss": tf.constant(0.0)}, rows=tf.constant(1), skips_infinite=False)
    assert found.keys() == {"loss"} and float(found["loss"]) == pytest.approx(31 / 32)

import numpy as np
import pytest
import tensorflow as tf

from tfdml.functional.statistics import pair_histograms


def test_a_value_counts_for_the_nodes_around_it():
    values = np.array([[0.0, 0.25, 1.0, 1.75, 2.0]])
    positives = np.array([[True, True, False, True, False]])
    negatives = np.array([[False, False, True, False, True]])
    found = pair_histograms(values, positives, negatives, low=0.0, high=2.0, bins=2)
    np.testing.assert_allclose(found, [[[1.75, 0.5, 0.75]], [[0.0, 1.0, 1.0]]])


def test_what_is_beyond_counts_for_the_last_node_with_no_gradient():
    variable = tf.Variable([[-1.5, 1.0 + 1e-6, 7.0]])
    everything = np.ones((1, 3), bool)
    with tf.GradientTape() as tape:
        found, none = pair_histograms(variable, everything, ~everything, low=-1.0, high=1.0, bins=4)
        weighted = tf.reduce_sum(found * [1.0, 2.0, 3.0, 4.0, 5.0])
    np.testing.assert_allclose(found, [[1, 0, 0, 0, 2]])
    np.testing.assert_array_equal(none, np.zeros((1, 5)))
    np.testing.assert_array_equal(tape.gradient(weighted, variable), [[0.0, 0.0, 0.0]])


@pytest.mark.usefixtures("improved_graphs")
@pytest.mark.parametrize("compiled", [False, True])
def test_what_is_no_number_stays_none(compiled):
    masks = np.array([[True, True], [True, False]])
    count = tf.function(lambda values: pair_histograms(values, masks, ~masks, 0.0, 1.0, 3), jit_compile=compiled)
    positives, negatives = count(tf.constant([[0.5, np.nan], [0.5, 0.5]]))
    assert np.any(np.isnan(positives[0])) and not np.any(np.isnan(positives[1]))
    assert not np.any(np.isnan(negatives))

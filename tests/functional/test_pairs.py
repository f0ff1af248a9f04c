import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfdml.functional.pairs import batch_ids, class_mask, hardest_pairs, nan_outside, negative_pairs, positive_pairs
from tfdml.functional.statistics import pair_histograms

some_labels = st.lists(st.sampled_from([0, 1, -7, 2**24, 2**24 + 1, 2**40, -(2**40)]), min_size=1, max_size=9)


@settings(max_examples=40, deadline=None)
@given(some_labels)
def test_masks_equal_a_loop_over_pairs(labels):
    positives, negatives = (np.array(mask(tf.constant(labels, tf.int64))) for mask in (positive_pairs, negative_pairs))
    for i, first in enumerate(labels):
        for j, second in enumerate(labels):
            assert positives[i, j] == (i != j and first == second)
            assert negatives[i, j] == (first != second)


@settings(max_examples=40, deadline=None)
@given(some_labels)
def test_batch_ids_say_the_same_as_labels(labels):
    ids = batch_ids(tf.constant(labels, tf.int64)).numpy().tolist()
    assert ids == [labels.index(label) for label in labels]


@pytest.mark.parametrize("labels", [[0.0, 1.0, 0.0], [True, False, True]])
def test_labels_need_not_be_integers(labels):
    np.testing.assert_array_equal(positive_pairs(tf.constant(labels))[0], [False, False, True])
    np.testing.assert_array_equal(batch_ids(tf.constant(labels)), [0, 1, 0])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "float32"])
def test_class_mask_equals_a_loop(dtype):
    labels = [2, 0, 4, 4, 5] + ([] if dtype == "uint8" else [-1])
    mask = class_mask(tf.constant(labels, dtype), 5).numpy()
    assert mask.dtype == bool and mask.tolist() == [[label == number for number in range(5)] for label in labels]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("classes", [1, 3, 100])
def test_labels_that_are_no_class_give_no_number(dtype, classes):
    labels = [0, 1, 2, 3, 99, 100, 127] + ([] if dtype.startswith("u") else [-1, -128])
    values = tf.range(len(labels), dtype="float64")
    kept = nan_outside(tf.constant(labels, dtype), classes, values)
    assert kept.dtype == "float64"
    expected = [number if 0 <= label < classes else float("nan") for number, label in enumerate(labels)]
    np.testing.assert_array_equal(kept, expected)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16"])
def test_more_classes_than_the_labels_can_hold(dtype):
    values = nan_outside(tf.cast([0, 1], dtype), 100_000, tf.constant([5.0, 6.0]))
    np.testing.assert_array_equal(values, [5.0, 6.0])


def test_large_labels_are_no_class_though_they_wrap_in_small_integers():
    labels = tf.constant([0, 2**32, 2**32 + 1, -(2**32), 2**40], tf.int64)
    values = nan_outside(labels, 4, tf.zeros(5))
    np.testing.assert_array_equal(np.isnan(values), [False, True, True, True, True])


def test_no_gradient_comes_from_labels_that_are_no_class():
    variable = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        values = nan_outside(tf.constant([0, 9]), 2, tf.square(variable))
    np.testing.assert_array_equal(tape.gradient(values, variable), [2.0, 0.0])


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


@pytest.mark.parametrize("count", [0, 1, 3, 5, 6, 99])
def test_hardest_pairs_are_the_largest_of_the_mask(count):
    values = np.random.default_rng(0).permutation(9).reshape(3, 3).astype(float)
    pairs = np.array([[1, 0, 1], [1, 1, 0], [1, 0, 1]], bool)
    best = sorted(values[pairs])[::-1][:count]
    np.testing.assert_array_equal(hardest_pairs(values, pairs, np.float32(count)), pairs & np.isin(values, best))


def test_pairs_that_are_equally_hard_stay_together():
    values = np.array([[0.0, 2.0], [2.0, 1.0]])
    found = hardest_pairs(values, np.ones((2, 2), bool), np.float32(1))
    np.testing.assert_array_equal(found, [[False, True], [True, False]])

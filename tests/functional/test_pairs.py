import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfdml.functional.pairs import batch_ids, negative_pairs, positive_pairs

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

"""Relevance of pairs by each kind of labels, against loops over pairs."""

import numpy as np
import pytest
import tensorflow as tf

from tfdml.functional.pairs import in_batch, known_pairs, negative_pairs, no_tree, positive_pairs, relevance

LEVELS = np.array([[0, 0], [0, 0], [0, 1], [5, 7], [5, 8], [5, 8], [0, 1]])
SEVERAL = np.array([[1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0], [1, 1, 0, 1], [0, 0, 1, 1]], bool)
GIVEN = np.array([[-1, 1, -1, 0.25], [1, -1, -1, 0], [-1, -1, 1, -1], [0.25, 0, -1, 0]], np.float32)


def of_levels(one, other):
    return sum(a == b for a, b in zip(one, other, strict=True)) / len(one)


def of_several(one, other):
    both, either = ({k for k, has in enumerate(row) if has} for row in (one & other, one | other))
    return len(both) / len(either) if one.any() and other.any() else None


def masks_of(labels, relevance_of, is_positive, is_negative, queries=None):
    """Relevance, known, positives and negatives, by a loop."""
    size = len(labels)
    found = np.zeros((4, size if queries is None else queries, size))
    for i in range(found.shape[1]):
        for j in range(size):
            value = relevance_of(i, j)
            found[:, i, j] = value or 0, value is not None, i != j and is_positive(value), i != j and is_negative(value)
    return found


def computed(labels, queries=None):
    return [np.array(each(labels, queries)) for each in (relevance, known_pairs, positive_pairs, negative_pairs)]


CASES = {
    "levels": (LEVELS, lambda i, j: of_levels(LEVELS[i], LEVELS[j]), lambda r: r == 1, lambda r: r < 1),
    "several": (
        SEVERAL,
        lambda i, j: of_several(SEVERAL[i], SEVERAL[j]),
        lambda r: r is not None and r >= 0.5,
        lambda r: r == 0,
    ),
    "given": (
        GIVEN,
        lambda i, j: None if GIVEN[i, j] < 0 else float(GIVEN[i, j]),
        lambda r: r is not None and r >= 0.5,
        lambda r: r == 0,
    ),
}


@pytest.mark.parametrize("queries", [None, 2])
@pytest.mark.parametrize("kind", CASES)
def test_it_equals_a_loop_over_pairs(kind, queries):
    labels, *rules = CASES[kind]
    expected = masks_of(labels, *rules, queries)
    for found, wanted in zip(computed(tf.constant(labels), queries), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("kind", CASES)
def test_numbers_of_a_batch_say_the_same(kind):
    labels = tf.constant(CASES[kind][0])
    numbers = tf.cast(in_batch(labels), tf.float32)
    for found, expected in zip(computed(numbers)[2:], computed(labels)[2:], strict=True):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(relevance(numbers), relevance(labels), rtol=1e-6)


def test_one_class_an_image_is_known_and_all_or_nothing():
    labels = tf.constant([3, 3, 2**40], tf.int64)
    np.testing.assert_array_equal(relevance(labels), [[1, 1, 0], [1, 1, 0], [0, 0, 1]])
    assert np.all(known_pairs(labels))


def test_a_tree_has_each_category_in_one_of_the_level_above():
    assert not no_tree(tf.constant(LEVELS))
    assert no_tree(tf.constant([[0, 1], [1, 1]]))
    assert no_tree(tf.constant([[0, 0, 1], [0, 1, 1]]))
    # In graphs, too.
    assert tf.function(no_tree)(tf.constant([[0, 1], [1, 1]]))

"""Anchors with a positive and a negative each."""

import numpy as np
import pytest
import tensorflow as tf

from pipelines.sampling import Triplets

# Class 3 has a single image.
LABELS = np.random.default_rng(0).permutation([0] * 5 + [1] * 2 + [2] * 9 + [3])


def thirds(steps, seed=0, triplets=4, labels=LABELS):
    sampler = Triplets(triplets)
    sampler.bind(labels)
    rows = sampler.rows(seed, tf.constant(steps)).numpy()
    assert rows.shape == (len(steps), sampler.batch_size) == (len(steps), 3 * triplets)
    return np.split(rows, 3, axis=1)


def test_each_anchor_has_a_positive_and_a_negative():
    anchor, positive, negative = thirds(range(400))
    assert np.all(LABELS[anchor] == LABELS[positive]) and np.all(anchor != positive)
    assert np.all(LABELS[anchor] != LABELS[negative])


def test_anchors_come_once_before_any_comes_twice():
    anchor = thirds(range(16))[0]
    counts = np.bincount(anchor.ravel(), minlength=len(LABELS))
    assert set(counts[LABELS != 3]) == {4} and counts[LABELS == 3] == 0


def test_all_positives_with_all_negatives():
    anchor, positive, negative = (rows[:, 0] for rows in thirds(range(9000), triplets=1))
    row = int(np.flatnonzero(LABELS == 0)[0])
    pairs = {(int(p), int(n)) for a, p, n in zip(anchor, positive, negative, strict=True) if a == row}
    # Drawn apart: 4 positives with each of 12 rows of other classes.
    assert len(pairs) == 4 * 12


def test_any_order_of_steps_gives_the_same_and_seeds_differ():
    rows, again = np.hstack(thirds(range(30))), np.hstack(thirds([29, 3]))
    np.testing.assert_array_equal(again, rows[[29, 3]])
    assert np.any(np.hstack(thirds(range(30), seed=1)) != rows)


def test_too_few_rows():
    with pytest.raises(ValueError, match=r"triplets\(triplets=18\) needs that many.*there are 16 rows and 4 classes"):
        Triplets(18).bind(LABELS)

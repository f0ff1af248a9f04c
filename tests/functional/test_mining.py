import numpy as np
import pytest
import tensorflow as tf

from tfdml.functional import pairs
from tfdml.functional.pairs import negative_pairs, positive_pairs

BATCHES = [(1, 1), (2, 2), (6, 1), (6, 6), (9, 3), (16, 5)]


@pytest.fixture(params=[(*batch, ties) for batch in BATCHES for ties in (False, True)], ids=str)
def case(request):
    """`(distances, positives, negatives)`, with many equal distances or none."""
    size, classes, ties = request.param
    random = np.random.default_rng([size, classes])
    labels = tf.constant(random.integers(0, classes, size))
    distance = random.integers(1, 4, (size, size)).astype("float32") if ties else random.random((size, size), "float32")
    distance = distance + distance.T
    np.fill_diagonal(distance, 0)
    return distance, positive_pairs(labels).numpy(), negative_pairs(labels).numpy()


def test_sorted_negatives(case):
    distance, _, negatives = case
    ascending, count = (result.numpy() for result in pairs.sorted_negatives(distance, negatives))
    for i, row in enumerate(distance):
        expected = sorted(value for value, is_negative in zip(row, negatives[i], strict=True) if is_negative)
        assert count[i] == len(expected)
        assert ascending[i, : len(expected)].tolist() == expected
        assert np.all(ascending[i, len(expected) :] > distance.max())


def test_count_at_most_counts_values_equal_to_the_threshold(case):
    distance, _, _ = case
    ascending = np.sort(distance, axis=1)
    thresholds = np.concatenate([distance[:, ::2], distance[:, ::2] + 0.25], axis=1)[:, : len(distance)]
    counts = pairs.count_at_most(ascending, thresholds).numpy()
    for i, row in enumerate(ascending):
        assert counts[i].tolist() == [sum(value <= threshold for value in row) for threshold in thresholds[i]]


def test_hardest(case):
    distance, _, negatives = case
    nearest = pairs.hardest_negative(distance, negatives).numpy()
    for i, row in enumerate(distance):
        if negatives[i].any():
            assert nearest[i] == min(row[negatives[i]])


def test_semi_hard_is_the_nearest_farther_negative_or_else_the_farthest(case):
    distance, _, negatives = case
    found = pairs.semi_hard_negative(distance, negatives).numpy()
    for i, row in enumerate(distance):
        candidates = row[negatives[i]]
        for j, value in enumerate(row):
            farther = [candidate for candidate in candidates if candidate > value]
            if len(candidates):
                assert found[i, j] == (min(farther) if farther else max(candidates))


@pytest.mark.parametrize("cutoff", [0.0, 1.1, 4.0, 9.0])
def test_nearest_beyond(case, cutoff):
    distance, positives, negatives = case
    count = positives.sum(axis=1, keepdims=True)
    chosen = pairs.nearest_beyond(distance, negatives, count, cutoff).numpy()
    for i, row in enumerate(distance):
        far = sorted(row[j] for j in range(len(row)) if negatives[i, j] and row[j] >= cutoff)
        assert not np.any(chosen[i] & ~negatives[i])
        assert sorted(row[chosen[i]]) == far[: count[i, 0]]

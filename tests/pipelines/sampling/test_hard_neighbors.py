"""Positive pairs and their nearest negatives."""

import numpy as np
import pytest
import tensorflow as tf

from pipelines.sampling import HardNeighbors, PxK, WithinClusters
from tfdml.neighbors import nearest_negatives

# Class 3 has a single image.
LABELS = np.random.default_rng(0).permutation([0] * 5 + [1] * 2 + [2] * 9 + [3] + [4] * 6)
EMBEDDINGS = np.random.default_rng(1).normal(size=(len(LABELS), 3)).astype(np.float32)
PAIRS = 4


def bound(labels=LABELS, pairs=PAIRS, **arguments):
    sampler = HardNeighbors(pairs=pairs, **{"neighbors": 3, **arguments})
    sampler.bind(labels)
    return sampler


def rows_of(sampler, steps, seed=0):
    rows = sampler.rows(seed, tf.constant(steps)).numpy()
    assert rows.shape == (len(steps), sampler.batch_size) and sampler.batch_size == 16
    return rows[:, :PAIRS], rows[:, PAIRS : 2 * PAIRS], rows[:, : 2 * PAIRS], rows[:, 2 * PAIRS :]


@pytest.mark.parametrize("refreshed", [False, True])
def test_half_a_batch_is_random_positive_pairs(refreshed):
    sampler = bound()
    if refreshed:
        sampler.refresh(EMBEDDINGS)
    first, second, _, _ = rows_of(sampler, range(22 * 8))
    assert np.all(LABELS[first] == LABELS[second]) and np.all(first != second)
    counts = np.bincount(first.ravel(), minlength=len(LABELS))
    # 22 rows have a partner; 22 * 8 batches begin 4 pairs each.
    assert set(counts[LABELS != 3]) == {32} and counts[LABELS == 3] == 0
    others = np.bincount(second.ravel(), minlength=len(LABELS))
    assert np.all(others[LABELS != 3] > 10)


def test_at_first_the_rest_is_random_rows_of_other_classes():
    _, _, images, negatives = rows_of(bound(), range(400))
    assert np.all(LABELS[images] != LABELS[negatives])
    of_one = negatives[images == images[0, 0]]
    assert set(of_one) == {*np.flatnonzero(LABELS != LABELS[images[0, 0]])}


def test_after_a_refresh_each_image_of_a_pair_has_one_of_its_hard_neighbors():
    sampler = bound()
    sampler.refresh(EMBEDDINGS)
    expected = nearest_negatives(EMBEDDINGS, LABELS, 3)
    _, _, images, negatives = rows_of(sampler, range(400))
    assert np.all(np.any(expected[images] == negatives[:, :, None], axis=2))
    shares = np.mean(expected[images] == negatives[:, :, None], axis=(0, 1))
    np.testing.assert_allclose(shares, 1 / 3, atol=0.05)
    # Of one image: the random number does not depend on its place alone.
    assert {*negatives[images == 0]} == {*expected[0]}
    sampler.refresh(-2 * EMBEDDINGS[::-1])
    again = nearest_negatives(-2 * EMBEDDINGS[::-1], LABELS, 3)
    _, _, images, negatives = rows_of(sampler, range(50))
    assert np.all(np.any(again[images] == negatives[:, :, None], axis=2))


def test_where_there_are_too_few_neighbors_random_rows_take_their_place():
    labels = np.repeat([0, 1], [6, 3])
    sampler = bound(labels, neighbors=5)
    sampler.refresh(np.random.default_rng(2).normal(size=(9, 2)).astype(np.float32))
    assert (sampler.refreshed()[0].numpy() == -1).sum() == 6 * 2
    _, _, images, negatives = rows_of(sampler, range(100))
    assert np.all(labels[images] != labels[negatives])


def test_any_order_of_steps_gives_the_same_and_seeds_differ():
    sampler = bound()
    sampler.refresh(EMBEDDINGS)
    rows = sampler.rows(0, np.arange(30)).numpy()
    np.testing.assert_array_equal(sampler.rows(0, [29, 3]), rows[[29, 3]])
    assert np.any(sampler.rows(1, np.arange(30)).numpy() != rows)


def test_the_tables_given_count_and_not_those_of_now():
    sampler = bound()
    before, tables = sampler.rows(0, np.arange(30)), sampler.tables()
    sampler.refresh(EMBEDDINGS)
    np.testing.assert_array_equal(sampler.rows(0, np.arange(30), tables), before)
    assert np.any(sampler.rows(0, np.arange(30)) != before)


def test_what_cannot_be_is_told():
    with pytest.raises(
        ValueError, match=r"hard_neighbors\(pairs=23\) needs that many.* there are 22 rows and 5 classes"
    ):
        bound(pairs=23)
    with pytest.raises(ValueError, match="there are 9 rows and 1 classes"):
        bound(np.zeros(9))
    with pytest.raises(ValueError, match="HardNeighbors does not work within clusters: its tables follow"):
        WithinClusters(HardNeighbors())
    sampler = PxK(2, 2)
    assert not sampler.refresh_every and sampler.refreshed() == []
    with pytest.raises(NotImplementedError, match=r"PxK needs the method refresh\(embeddings, workers\)"):
        sampler.refresh(EMBEDDINGS)


@pytest.mark.parametrize("embeddings", [EMBEDDINGS[:-1], np.concatenate([EMBEDDINGS, EMBEDDINGS[:1]])])
def test_a_refresh_needs_an_embedding_for_each_row(embeddings):
    with pytest.raises(ValueError, match=f"each of {len(LABELS)} training rows, received {len(embeddings)}"):
        bound().refresh(embeddings)

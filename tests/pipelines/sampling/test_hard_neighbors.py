"""Positive pairs and their nearest negatives."""

import numpy as np
import pytest
import tensorflow as tf

from pipelines.sampling import HardNeighbors, PxK, WithinClusters
from tests.pipelines.sampling.in_graph import rows_and_learners
from tfdml.neighbors.nearest import nearest_negatives

# Class 3 has a single image.
LABELS = np.random.default_rng(0).permutation([0] * 5 + [1] * 2 + [2] * 9 + [3] + [4] * 6)
EMBEDDINGS = np.random.default_rng(1).normal(size=(len(LABELS), 3)).astype(np.float32)
PAIRS = 4


def bound(labels=LABELS, pairs=PAIRS, **arguments):
    sampler = HardNeighbors(pairs=pairs, **{"neighbors": 3, **arguments})
    sampler.bind(labels)
    return sampler


def rows_of(sampler, steps, seed=0):
    with_learners = sampler.targets == "learners"
    drawn = rows_and_learners(sampler, steps, seed)[0] if with_learners else sampler.rows(seed, tf.constant(steps))
    rows = np.asarray(drawn)
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


def test_the_tables_given_count_and_not_those_of_now():
    sampler = bound()
    before, tables = sampler.rows(0, np.arange(30)), sampler.tables()
    sampler.refresh(EMBEDDINGS)
    np.testing.assert_array_equal(sampler.rows(0, np.arange(30), tables), before)
    assert np.any(sampler.rows(0, np.arange(30)) != before)


def test_what_cannot_be_is_told():
    with pytest.raises(
        ValueError, match=r"hard_neighbors\(pairs=23\) needs that many.* Received: 22 such images and 5 classes"
    ):
        bound(pairs=23)
    with pytest.raises(ValueError, match="Received: 9 such images and 1 classes"):
        bound(np.zeros(9))

    class Following(PxK):
        refresh_every = 1

    with pytest.raises(ValueError, match="Following does not work within clusters, because its tables follow"):
        WithinClusters(Following())
    sampler = PxK(2, 2)
    assert not sampler.refresh_every and sampler.refreshed() == []
    with pytest.raises(NotImplementedError, match=r"PxK must implement refresh\(embeddings, workers\)"):
        sampler.refresh(EMBEDDINGS)


@pytest.mark.parametrize("embeddings", [EMBEDDINGS[:-1], np.concatenate([EMBEDDINGS, EMBEDDINGS[:1]])])
def test_a_refresh_needs_an_embedding_for_each_row(embeddings):
    for sampler in (bound(), within_clusters()):
        with pytest.raises(ValueError, match=f"each of the {len(LABELS)} training images. Received: {len(embeddings)}"):
            sampler.refresh(embeddings)


def within_clusters():
    sampler = WithinClusters(HardNeighbors(pairs=PAIRS, neighbors=3), shuffle=False)
    sampler.bind(LABELS)
    return sampler


def test_in_a_cluster_they_are_the_nearest_of_other_classes_there():
    # The even rows, and the odd ones.
    clusters = np.arange(len(LABELS)) % 2
    sampler = within_clusters()
    sampler.assign(clusters)
    sampler.refresh(EMBEDDINGS)
    distances = np.linalg.norm(EMBEDDINGS[:, None] - EMBEDDINGS, axis=2)
    distances[(LABELS[:, None] == LABELS) | (clusters[:, None] != clusters)] = np.inf
    expected = np.argsort(distances, axis=1)[:, :3]
    np.testing.assert_array_equal(sampler.refreshed()[0], expected)
    _, _, images, negatives = rows_of(sampler, range(100))
    np.testing.assert_array_equal(clusters[images], np.arange(100)[:, None] % 2 + np.zeros_like(images))
    assert np.all(np.any(expected[images] == negatives[:, :, None], axis=2))


def test_after_new_clusters_random_rows_take_the_place_of_neighbors_in_others():
    sampler = within_clusters()
    sampler.refresh(EMBEDDINGS)
    (found,) = (table.numpy() for table in sampler.refreshed())
    clusters = np.arange(len(LABELS)) % 2
    sampler.assign(clusters)
    np.testing.assert_array_equal(sampler.refreshed()[0], found)
    _, _, images, negatives = rows_of(sampler, range(400))
    assert np.all(clusters[images] == clusters[negatives]) and np.all(LABELS[images] != LABELS[negatives])
    # A neighbor in the same cluster comes wherever it is drawn, one time in three, and at random beside that.
    there = clusters[found] == clusters[:, None]
    image = int(np.flatnonzero(there.sum(axis=1) == 1)[0])
    (neighbor,) = found[image][there[image]]
    assert 1 / 3 < np.mean(negatives[images == image] == neighbor) < 0.6


def test_bound_to_other_labels_within_clusters_nothing_of_the_former_is_left():
    sampler = within_clusters()
    sampler.refresh(EMBEDDINGS)
    others = np.repeat(np.arange(6), 5).tolist()
    sampler.bind(others)
    assert sampler.refreshed()[0].shape == (30, 3) and np.all(sampler.refreshed()[0].numpy() == -1)
    sampler.refresh(np.random.default_rng(3).normal(size=(30, 3)).astype(np.float32))
    neighbors = sampler.refreshed()[0].numpy()
    assert np.all(neighbors >= 0) and np.all(np.array(others)[neighbors] != np.array(others)[:, None])
    _, _, images, negatives = rows_of(sampler, range(50))
    assert np.all(np.any(neighbors[images] == negatives[:, :, None], axis=2))

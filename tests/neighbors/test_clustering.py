"""K-means, and matching new clusters to learners."""

import itertools

import faiss
import numpy as np
import pytest

from tfdml.neighbors import clustering
from tfdml.neighbors.clustering import distinct_count, kmeans, matched, overlap
from tfdml.run.experiment.judged_images import nearest_means


def blobs(clusters=4, size=30, dim=6, seed=0):
    random = np.random.default_rng(seed)
    centers = 10 * random.normal(size=(clusters, dim))
    members = np.repeat(np.arange(clusters), size)
    order = random.permutation(len(members))
    return (centers[members] + random.normal(size=(len(members), dim)))[order].astype(np.float32), members[order]


def test_the_cluster_whose_mean_is_nearest():
    points, members = blobs()
    # Cluster labels may have gaps, and clusters may differ in size.
    chosen = np.flatnonzero((members > 0) | (np.arange(len(members)) < 20))
    assert nearest_means(points, points[chosen], 3 * members[chosen]).tolist() == (3 * members).tolist()
    assert nearest_means(np.array([[0.9], [1.1]]), np.array([[0.0], [2.0]]), np.array([5, 2])).tolist() == [5, 2]


def test_iterations_are_told(monkeypatch):
    counts, told = [], clustering.ProgressBar
    monkeypatch.setattr(
        clustering, "ProgressBar", lambda *args, **options: counts.append(args[0]) or told(*args, **options)
    )
    monkeypatch.setattr(told, "add", lambda bar, count: counts.append(count))
    kmeans(blobs()[0], 4, seed=0, iterations=9, restarts=2)
    # Both restarts end when no point moves.
    assert counts[0] == 18 and counts[1:] == [1] * len(counts[1:]) and 2 < len(counts) < 18


@pytest.mark.slow
def test_the_clusters_are_those_of_faiss():
    points, _ = blobs(clusters=40, size=12)
    points += np.random.default_rng(1).normal(scale=6.0, size=points.shape).astype(np.float32)
    for clusters in (7, 40, 300):
        found, centroids = kmeans(points, clusters, seed=4)
        options = {"niter": 50, "seed": 4, "max_points_per_centroid": len(points), "min_points_per_centroid": 1}
        expected = faiss.Kmeans(points.shape[1], clusters, **options)
        expected.train(points)
        np.testing.assert_array_equal(found, expected.index.search(points, 1)[1][:, 0])
        np.testing.assert_allclose(centroids, expected.centroids, atol=1e-4)


def naive_overlap(before, after, clusters):
    sets = [[set(np.flatnonzero(each == k)) for k in range(clusters)] for each in (before, after)]
    return [[len(old & new) / max(len(old | new), 1) for new in sets[1]] for old in sets[0]]


def test_it_finds_what_lies_apart_and_the_same_every_time():
    points, members = blobs()
    assignment, centroids = kmeans(points, 4, seed=3, restarts=3)
    assert centroids.shape == (4, 6)
    # Each cluster is one of the blobs.
    assert sorted(np.max(overlap(members, assignment, 4), axis=1)) == [1.0] * 4
    nearest = np.argmin(np.sum((points[:, None] - centroids[None]) ** 2, axis=2), axis=1)
    np.testing.assert_array_equal(assignment, nearest)
    np.testing.assert_array_equal(assignment, kmeans(points, 4, seed=3, restarts=3)[0])


def test_all_points_are_used():
    """faiss would use only 256 points per centroid, which changes the means."""
    points = np.random.default_rng(0).normal(size=(3000, 2)).astype(np.float32)
    np.testing.assert_allclose(kmeans(points, 1, seed=0)[1][0], points.mean(axis=0), atol=1e-4)


@pytest.mark.slow
def test_of_restarts_the_best_is_taken():
    points, _ = blobs(clusters=8, size=20, dim=2, seed=1)

    def cost(restarts):
        assignment, centroids = kmeans(points, 8, seed=0, restarts=restarts)
        return np.sum((points - centroids[assignment]) ** 2)

    assert cost(20) < cost(1)


def test_overlap_is_intersection_over_union():
    random = np.random.default_rng(0)
    before, after = random.integers(0, 5, 40), random.integers(0, 4, 40)
    np.testing.assert_allclose(overlap(before, after, 5), naive_overlap(before, after, 5))


def test_a_three_cycle_of_numbers_changes_nothing():
    """A permutation and its inverse differ only for three elements or more."""
    before = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2])
    after = np.array([1, 2, 0])[before]
    np.testing.assert_array_equal(matched(before, after, 3), before)


@pytest.mark.parametrize("seed", range(5))
def test_the_sum_of_overlaps_is_the_largest_of_all_permutations(seed):
    random = np.random.default_rng(seed)
    before, after = random.integers(0, 4, 30), random.integers(0, 4, 30)
    learner = matched(before, after, 4)
    # The result renumbers the new clusters.
    assert len({*zip(after, learner, strict=True)}) == len(set(after))
    reached = np.trace(overlap(before, learner, 4))
    best = max(
        np.trace(np.array(naive_overlap(before, np.array(order)[after], 4)))
        for order in itertools.permutations(range(4))
    )
    assert reached == pytest.approx(best)


def test_what_cannot_be_clustered_is_told():
    points, _ = blobs()
    with pytest.raises(ValueError, match=r"embeddings must have shape \[rows, dim\]. Received: shape \(3,\)"):
        kmeans(np.zeros(3), 2, seed=0)
    broken = points.copy()
    broken[[7, 9], 1] = np.nan
    with pytest.raises(ValueError, match="2 of 120 embeddings are not finite. The first is row 7"):
        kmeans(broken, 2, seed=0)
    with pytest.raises(ValueError, match="5 clusters need at least 5 distinct embeddings. The 120 rows have only 3"):
        kmeans(points[np.arange(120) % 3], 5, seed=0)


@pytest.mark.parametrize("dim", [3, 33, 64, 129])
def test_equal_rows_are_one_wherever_they_lie(dim):
    row = np.random.default_rng(dim).normal(size=dim).astype(np.float32)
    assert [distinct_count(np.tile(row, (count, 1))) for count in range(1, 70)] == [1] * 69
    signs = np.where(np.random.default_rng(0).random((500, dim)) < 0.5, -1, 1)
    for rows in (signs, signs.astype(np.float32), np.asfortranarray(signs * row)):
        assert distinct_count(rows) == len(np.unique(signs, axis=0))
    assert distinct_count(np.array([[0.0, 1.0], [-0.0, 1.0]])) == 1
    with pytest.raises(ValueError, match="2 clusters need at least 2 distinct embeddings. The 50 rows have only 1"):
        kmeans(np.tile(row, (50, 1)), 2, seed=0)

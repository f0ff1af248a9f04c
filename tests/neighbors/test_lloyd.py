"""Lloyd's algorithm compares few points and centroids but finds the same clusters as comparing all."""

import numpy as np
import pytest

from tests.neighbors.test_clustering import blobs
from tfdml.neighbors import clustering
from tfdml.neighbors.clustering import Lloyd, kmeans


def plain(points, centroids, steps):
    """The assignment after each step of Lloyd's algorithm that compares all points with all centroids, in float64."""
    points, centroids, found = points.astype(float), centroids.astype(float), []
    for _ in range(steps):
        found.append(np.argmin(np.sum((points[:, None] - centroids) ** 2, axis=2), axis=1))
        for k in np.unique(found[-1]):
            centroids[k] = points[found[-1] == k].mean(axis=0)
    return found


@pytest.mark.parametrize("few", [0, 1000])
@pytest.mark.parametrize("noise", [2.0, 3.0, 10.0])
def test_each_step_is_that_of_comparing_all(noise, few, monkeypatch):
    monkeypatch.setattr(clustering, "FEW", few)
    monkeypatch.setattr(clustering, "ROWS", 50)
    points, _ = blobs(clusters=60, size=6)
    points += np.random.default_rng(1).normal(scale=noise, size=points.shape).astype(np.float32)
    start = points[:60].copy()
    ours, steps = Lloyd(points, start.copy()), plain(points, start, 12)
    for step, expected in enumerate(steps):
        if not ours.assign():
            np.testing.assert_array_equal(expected, steps[step - 1])
            break
        np.testing.assert_array_equal(ours.assignment, expected)
        nearest = np.sum((points - ours.centroids[expected]) ** 2, axis=1)
        np.testing.assert_allclose(ours.distances, nearest, rtol=1e-3, atol=1e-3)
        ours.move()
    assert step > 2


def test_only_centroids_that_moved_are_compared(monkeypatch):
    """Comparisons are counted, because few comparisons make it fast."""
    monkeypatch.setattr(clustering, "FEW", 0)
    compared, nearest = [], Lloyd._nearest

    def counted(self, points, centroids):
        compared.append(len(points) * len(centroids))
        return nearest(self, points, centroids)

    monkeypatch.setattr(Lloyd, "_nearest", counted)
    points, _ = blobs(clusters=200, size=6, dim=8)
    points += np.random.default_rng(1).normal(scale=3.0, size=points.shape).astype(np.float32)
    ours, steps = Lloyd(points, points[::6].copy()), 0
    while ours.assign():
        ours.move()
        steps += 1
    assert steps > 6
    # The first two steps compare all points. Later steps compare fewer and fewer.
    assert sum(compared) < 4 * len(points) * 200


def test_a_cluster_without_points_gets_the_farthest():
    points = np.array([[0.0], [0.1], [0.2], [5.0], [9.0]], np.float32)
    # Two centroids that no point is nearest to.
    ours = Lloyd(points, np.array([[1.0], [-50.0], [90.0]], np.float32))
    ours.assign()
    ours.move()
    assert sorted(ours.centroids[1:, 0].tolist()) == [5.0, 9.0]
    while ours.assign():
        ours.move()
    assert [sorted(points[ours.assignment == k, 0].tolist()) for k in ours.assignment[[0, 3, 4]]] == [
        points[:3, 0].tolist(),
        [5.0],
        [9.0],
    ]


def test_rows_that_are_equal_give_as_many_clusters_as_there_are_of_them():
    random = np.random.default_rng(0)
    points = random.normal(size=(20, 5)).astype(np.float32)[random.integers(0, 20, 300)]
    clusters, centroids = kmeans(points, 50, seed=0, at_most=True)
    assert len(centroids) == len(np.unique(clusters)) == 20
    np.testing.assert_allclose(points, centroids[clusters], atol=1e-6)

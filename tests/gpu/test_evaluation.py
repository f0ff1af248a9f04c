"""Ranks on GPUs are those of the CPU, bit for bit, and clusters the same."""

import numpy as np
import pytest
import tensorflow as tf

from tests.evaluation.ranks.test_positive_ranks import clustered, near_ties
from tests.neighbors.test_clustering import blobs
from tfdml.evaluation import evaluate
from tfdml.evaluation.ranks import counts
from tfdml.neighbors.clustering import kmeans
from tfdml.neighbors.nearest import load_faiss

DATA = {
    "clustered": lambda: clustered(rows=5000, classes=300, dim=64),
    "near_ties": lambda: near_ties("steps", np.random.default_rng(0)),
}
METRICS = ("recall_at_1", "recall_at_8", "r_precision", "map_at_r", "map")


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
@pytest.mark.parametrize("data", DATA)
def test_same_numbers_as_the_cpu(data, distance, kind, monkeypatch):
    embeddings, labels = DATA[data]()
    devices, used, begin = [each.name for each in tf.config.list_logical_devices(kind)], [], counts.Products._begin

    def noted(self, device, *more):
        used.append(device)
        return begin(self, device, *more)

    monkeypatch.setattr(counts.Products, "_begin", noted)
    monkeypatch.setattr(counts, "half_products_are_fast", lambda: False)
    monkeypatch.setattr(counts, "gpus", list)
    expected = evaluate(embeddings, labels, METRICS, distance=distance)
    assert not used
    monkeypatch.setattr(counts, "gpus", lambda: devices)
    assert evaluate(embeddings, labels, METRICS, distance=distance) == expected and set(used) == set(devices)


def test_same_clusters_as_the_cpu(kind, monkeypatch):
    faiss = load_faiss()
    if kind == "GPU" and not faiss.get_num_gpus():
        pytest.skip("faiss sees no GPU.")
    points, members = blobs(clusters=20, size=100, dim=32)
    (found, centroids), (again, same) = (kmeans(points, 20, seed=0, restarts=3) for _ in range(2))
    assert found.tobytes() == again.tobytes() and centroids.tobytes() == same.tobytes()
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 0)
    expected, expected_centroids = kmeans(points, 20, seed=0, restarts=3)
    assert found.tolist() == expected.tolist()
    np.testing.assert_allclose(centroids, expected_centroids, rtol=1e-4, atol=1e-4)

import numpy as np
import pytest

from tfdml.evaluation import evaluate
from tfdml.evaluation.metrics import metric_of


def nearest(points, row, k):
    others = [other for other in range(len(points)) if other != row]
    return set(sorted(others, key=lambda other: np.sum((points[row] - points[other]) ** 2))[:k])


def kept(embeddings, labels, k):
    """Word by word."""
    pairs = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    first, second = (embeddings[[pair[place] for pair in pairs]] for place in (0, 1))
    return np.mean([len(nearest(first, row, k) & nearest(second, row, k)) / k for row in range(len(pairs))])


@pytest.mark.parametrize("k, images", [(3, 20), (10, 20), (10, 40)])
def test_it_equals_a_loop(k, images):
    random = np.random.default_rng(k)
    points = random.normal(size=(images, 4))
    views = np.concatenate([points, points + 0.5 * random.normal(size=points.shape)])
    order = random.permutation(2 * images)
    labels, embeddings = np.tile(np.arange(images), 2)[order], views[order].astype(np.float32)
    found = metric_of(f"neighbors_kept(k={k})").value(embeddings, labels)
    assert found == pytest.approx(kept(embeddings, labels, k)) and 0.2 < found < 1


def test_equal_views_keep_all_and_a_collapsed_embedding_almost_none():
    points = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    labels = np.tile(np.arange(60), 2)
    assert evaluate(np.tile(points, (2, 1)), labels, "neighbors_kept")["neighbors_kept"] == 1
    assert metric_of("neighbors_kept").value(np.ones((120, 4), np.float32), labels) < 0.2


def test_few_images_and_other_numbers_of_views():
    points = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    assert metric_of("neighbors_kept").value(points, np.tile(np.arange(4), 2)) is not None
    assert metric_of("neighbors_kept").value(points, np.arange(8) // 4) is None
    assert metric_of("neighbors_kept").value(points[:4], np.arange(4) // 2) is None

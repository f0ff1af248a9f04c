"""The nearest rows of other classes, found block by block."""

import numpy as np
import pytest

from tfdml.neighbors.nearest import nearest_negatives, unit_length


def distances(embeddings, labels):
    """Squared distances of all pairs, infinite within a class."""
    apart = np.sum((embeddings[:, None] - embeddings[None]) ** 2, axis=2, dtype=np.float64)
    return np.where(labels[:, None] == labels[None, :], np.inf, apart)


def made(rows, classes, seed=0, dim=6):
    random = np.random.default_rng(seed)
    return random.normal(size=(rows, dim)).astype(np.float32) + 5, random.integers(-3, classes - 3, rows) * 7


# One block, blocks of one row and of several rows; groups of one place and of many.
@pytest.mark.parametrize("rows, k, memory", [(50, 3, 2**27), (333, 1, 1), (701, 5, 2**15), (1300, 8, 2**20)])
def test_they_are_those_of_all_distances(rows, k, memory):
    embeddings, labels = made(rows, classes=9)
    found = nearest_negatives(embeddings, labels, k, memory=memory)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, np.argsort(distances(embeddings, labels), axis=1)[:, :k])


@pytest.mark.parametrize("rows, k", [(200, 7), (1500, 4)])
def test_of_equal_distances_any_rows_are_found_but_none_twice(rows, k):
    embeddings, labels = made(rows, classes=12)
    # Integers around a mean of 0, so that products are exact.
    embeddings = np.rint(embeddings[: rows // 2, :3])
    embeddings, labels = np.concatenate([embeddings, -embeddings]), np.tile(labels[: rows // 2], 2)
    found, apart = nearest_negatives(embeddings, labels, k), distances(embeddings, labels)
    np.testing.assert_array_equal(np.take_along_axis(apart, found, axis=1), np.sort(apart, axis=1)[:, :k])
    assert all(len(set(row)) == k for row in found)


def test_a_collapsed_embedding_still_has_neighbors_of_other_classes():
    _, labels = made(900, classes=5)
    found = nearest_negatives(np.ones((900, 4), np.float32), labels, 6)
    assert found.min() >= 0 and np.all(labels[found] != labels[:, None])
    assert all(len(set(row)) == 6 for row in found)


@pytest.mark.parametrize(
    "labels, counts", [([0, 0, 0, 1, 1], [2, 2, 2, 3, 3]), ([4, 4, 4], [0, 0, 0]), ([2, 1], [1, 1])]
)
def test_behind_the_last_there_is_none(labels, counts):
    embeddings, _ = made(len(labels), classes=2)
    labels = np.array(labels)
    found = nearest_negatives(embeddings, labels, 4)
    assert found.shape == (len(labels), 4)
    np.testing.assert_array_equal(np.sum(found >= 0, axis=1), counts)
    for row, count in enumerate(counts):
        expected = np.argsort(distances(embeddings, labels)[row])[:count]
        np.testing.assert_array_equal(found[row], [*expected, *[-1] * (4 - count)])


def test_embeddings_near_each_other_but_far_from_0_are_told_apart():
    embeddings, labels = made(300, classes=9)
    near, far = nearest_negatives(embeddings, labels, 3), nearest_negatives(embeddings + 2.0**12, labels, 3)
    assert np.mean(near == far) > 0.98


@pytest.mark.parametrize("dtype, factors", [("float16", (2e-7, 1, 6e3)), ("float32", (1e-40, 1e-23, 1, 1e20, 3e37))])
def test_no_vector_is_too_long_or_too_short_for_unit_length(dtype, factors):
    vectors = (made(9, classes=2)[0] * np.array([1, -1] * 3)).astype(dtype)
    rows = np.concatenate([vectors * np.array(factor, dtype) for factor in factors])
    found, exact = unit_length(rows), rows.astype(np.float64)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, exact / np.linalg.norm(exact, axis=1, keepdims=True), atol=1e-3)
    np.testing.assert_array_equal(unit_length(np.zeros((2, 3), dtype)), np.zeros((2, 3)))
    assert unit_length(vectors[:, None]).shape == (9, 1, 6) and unit_length(vectors[:0]).shape == (0, 6)

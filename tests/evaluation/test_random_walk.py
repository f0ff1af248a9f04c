"""Ranking by random walks, compared with explicit walks on a graph that is built edge by edge."""

import tracemalloc

import numpy as np
import pytest

from tests.evaluation.naive_ranks import naive_ranks, ranks_by
from tests.evaluation.test_rerankings import example, found_ranks, marks, unit
from tfdml.evaluation.queries import RetrievalTask
from tfdml.evaluation.rerankings import RandomWalk
from tfdml.functional.manifold import random_walk


def graph(embeddings, k):
    """S̄ of section 5 of EDMS. With k, two images are connected if one is among the other's k nearest."""
    count = len(embeddings)
    points = [unit(row) for row in embeddings]
    cosine = np.array([[one @ other for other in points] for one in points])
    near = [
        sorted(set(range(count)) - {row}, key=lambda other, row=row: -cosine[row, other])[:k] for row in range(count)
    ]
    weights = np.eye(count)
    for i, j in np.ndindex(weights.shape):
        if j in near[i] or i in near[j]:
            weights[i, j] = max(0.0, cosine[i, j])
    degrees = weights.sum(axis=1)
    steps = weights / np.sqrt(degrees[:, None] * degrees[None, :])
    np.fill_diagonal(steps, 0.0)
    return steps


def walked(steps, restart):
    """Walks that continue with probability α, step by step, from every image: the series that (9) sums."""
    reached, here = np.zeros_like(steps), np.eye(len(steps))
    weight = 1 - restart
    while weight > 1e-16:
        reached += weight * here
        here, weight = steps @ here, weight * restart
    return reached


def similarity_of(embeddings, rows, k, restart):
    """A function of a query and another image among `rows`: F divided by the query's largest value."""
    steps = graph(embeddings[rows], k)
    reached = walked(steps, restart)
    closed = (1 - restart) * np.linalg.inv(np.eye(len(steps)) - restart * steps)
    np.testing.assert_allclose(reached, closed, atol=1e-13)
    place = {row: number for number, row in enumerate(rows)}
    np.fill_diagonal(reached, 0.0)
    largest = reached.max(axis=1)
    return lambda query, row: reached[place[query], place[row]] / largest[place[query]]


@pytest.mark.parametrize("kind", ["all", "apart", "partly the same"])
@pytest.mark.parametrize("k, restart", [(None, 0.8), (None, 0.97), (6, 0.8), (2, 0.99), (500, 0.3)])
@pytest.mark.few_by_day(5)
def test_equal_to_a_walk_step_by_step(k, restart, kind, monkeypatch):
    # Blocks of about 2 queries, and affinities of 7 images at once.
    monkeypatch.setattr("tfdml.evaluation.rerankings.random_walk.MEMORY", 5000)
    embeddings, labels = example(rows=80, classes=9)
    task = marks(kind, len(labels))
    everything = np.ones(len(labels), bool)
    queries, gallery = (np.flatnonzero(task.get(name, everything)) for name in ("queries", "gallery"))
    similarity = similarity_of(embeddings, np.union1d(queries, gallery).tolist(), k or len(labels), restart)
    expected = ranks_by(similarity, labels, queries, gallery)
    spec = f"random_walk(k={k}, restart={restart})"
    assert found_ranks(spec, 3 * embeddings, labels, task) == expected
    first = {query: ranks[:1] for query, ranks in expected.items()}
    assert found_ranks(spec, embeddings, labels, task, first_only=True) == first
    assert expected != naive_ranks(embeddings, labels, **task)


def blocks_of(reranking, points, task):
    """Similarities of all queries to the gallery, from the blocks of a reranking."""
    return np.concatenate([similarities for _, similarities in reranking._blocks(points, task)])


def test_it_is_the_walk_that_the_losses_take():
    embeddings, labels = example(rows=60)
    task = RetrievalTask.of(labels, queries=np.arange(60) < 20, gallery=np.arange(60) >= 20)
    points = np.array([unit(row) for row in embeddings])
    of_rows, _ = (values.numpy() for values in random_walk(points[:20], points[20:], restart=0.6))
    found = blocks_of(RandomWalk(k=None, restart=0.6), points, task)
    np.testing.assert_allclose(found, of_rows / of_rows.max(axis=1, keepdims=True), rtol=0, atol=1e-8)


def test_images_that_no_walk_reaches_rank_last():
    embeddings = np.array([[1.0, 0, 0], [1, 0.1, 0], [0, 0, 1], [0, 0, 0], [-1, 0, 0]])
    # It ranks behind both negatives, one of which a walk reaches.
    assert found_ranks("random_walk(k=1)", embeddings, np.array([0, 1, 0, 2, 0]), {})[0] == [3, 4]


@pytest.mark.parametrize("k", [None, 10])
def test_memory_is_that_of_blocks(k, monkeypatch):
    monkeypatch.setattr("tfdml.evaluation.rerankings.random_walk.MEMORY", 2**18)
    spec = f"random_walk(k={k}, restart=0.1)"
    embeddings, labels = example(rows=1000, classes=50)
    # Import the dependencies before measuring.
    found_ranks(spec, embeddings[:90], labels[:90], {})
    tracemalloc.start()
    try:
        found_ranks(spec, embeddings, labels, {"queries": np.arange(1000) < 20})
        assert tracemalloc.get_traced_memory()[1] < 8 * 1000**2 / 4
    finally:
        tracemalloc.stop()

"""k-reciprocal re-ranking against its steps with sets and lists."""

import numpy as np
import pytest

from tests.evaluation.naive_ranks import ranks_by
from tests.evaluation.test_rerankings import example, found_ranks, marks, unit


def k_reciprocal(embeddings, rows, k1, k2, weight):
    """The distances of all pairs of rows, computed literally. Rows that are not in `rows` are ignored."""
    points = {row: unit(embeddings[row]) for row in rows}
    squared = {p: {g: np.sum((points[p] - points[g]) ** 2) for g in rows} for p in rows}
    distance = {p: {g: squared[p][g] / max(squared[p].values()) for g in rows} for p in rows}
    order = {p: sorted(rows, key=lambda g, p=p: (g != p, distance[p][g])) for p in rows}

    def reciprocal(p, k):
        return {g for g in order[p][: k + 1] if p in order[g][: k + 1]}

    codes = {}
    for p in rows:
        members = expanded = reciprocal(p, k1)
        for q in members:
            more = reciprocal(q, round(k1 / 2))
            if 3 * len(more & members) > 2 * len(more):
                expanded = expanded | more
        weights = {g: np.exp(-distance[p][g]) for g in expanded}
        codes[p] = np.array([weights.get(g, 0.0) / sum(weights.values()) for g in rows])
    codes = {p: np.mean([codes[g] for g in order[p][:k2]], axis=0) for p in rows}

    def final(p, g):
        shared = np.minimum(codes[p], codes[g]).sum() / np.maximum(codes[p], codes[g]).sum()
        return (1 - weight) * (1 - shared) + weight * distance[p][g]

    return final


@pytest.mark.parametrize("kind", ["all", "apart", "partly the same"])
@pytest.mark.parametrize("k1, k2, weight", [(7, 3, 0.3), (6, 1, 0.0), (20, 6, 0.3), (3, 2, 1.0), (4, 9, 0.3)])
def test_equals_sets_and_lists(k1, k2, weight, kind, monkeypatch):
    for name, value in {"MEMORY": 2000, "ROWS": 7, "PAIRS": 5}.items():
        monkeypatch.setattr(f"tfdml.evaluation.rerankings.k_reciprocal.{name}", value)
    embeddings, labels = example(rows=80, classes=9)
    task = marks(kind, len(labels))
    everything = np.ones(len(labels), bool)
    queries, gallery = (np.flatnonzero(task.get(name, everything)) for name in ("queries", "gallery"))
    distance = k_reciprocal(embeddings, np.union1d(queries, gallery).tolist(), k1, k2, weight)
    expected = ranks_by(lambda query, row: -distance(query, row), labels, queries, gallery)
    spec = f"k_reciprocal(k1={k1}, k2={k2}, weight={weight})"
    assert found_ranks(spec, embeddings, labels, task) == expected
    first = {query: ranks[:1] for query, ranks in expected.items()}
    assert found_ranks(spec, embeddings, labels, task, first_only=True) == first


def test_images_of_the_same_camera_do_not_count():
    embeddings, labels = example(rows=60, classes=5)
    cameras = np.arange(60) % 3
    rows = list(range(60))
    distance = k_reciprocal(embeddings, rows, 20, 6, 0.3)
    expected = ranks_by(lambda query, row: -distance(query, row), labels, rows, rows, apart=[cameras])
    assert found_ranks("k_reciprocal", embeddings, labels, {"apart": [cameras]}) == expected


def test_a_collapsed_embedding_is_not_made_good():
    labels = np.repeat(np.arange(30), 3)
    ranks = found_ranks("k_reciprocal(k1=4, weight=1.0)", np.ones((90, 4)), labels, {})
    assert all(each == [88, 89] for each in ranks.values())

"""SuperGlobal's re-ranking against its steps with lists."""

import numpy as np
import pytest

from tests.evaluation.naive_ranks import ranks_by
from tests.evaluation.test_rerankings import example, found_ranks, marks, unit


def super_global(embeddings, query, gallery, candidates, k, beta):
    """Returns the score of each row of the gallery, in which later images come after all candidates."""
    points = {row: unit(embeddings[row]) for row in (query, *gallery)}
    others = sorted((row for row in gallery if row != query), key=lambda row: -points[query] @ points[row])
    first, means = others[:candidates], {}
    for row in first:
        near = sorted((other for other in first if other != row), key=lambda other: -points[row] @ points[other])
        weights = [beta * max(points[row] @ points[other], 0) for other in near[:k]]
        total = points[row] + sum(weight * points[other] for weight, other in zip(weights, near, strict=False))
        means[row] = total / (1 + sum(weights))
    best = sorted(first, key=lambda row: -means[row] @ points[query])[: k + 1]
    expanded = [max(means[row][place] for row in best) for place in range(embeddings.shape[1])]
    scores = {row: (means[row] @ points[query] + means[row] @ expanded) / 2 for row in first}
    return {
        row: scores[row] if row in scores else -100 - others.index(row) if row != query else -1e6 for row in gallery
    }


@pytest.mark.parametrize("kind", ["all", "apart", "partly the same"])
@pytest.mark.parametrize("candidates, k, beta", [(400, 9, 0.15), (20, 3, 1.0), (7, 9, 0.5), (30, 1, 0.0), (1, 2, 0.15)])
def test_equals_steps_with_lists(candidates, k, beta, kind, monkeypatch):
    monkeypatch.setattr("tfdml.evaluation.rerankings.super_global.MEMORY", 2000)
    embeddings, labels = example(rows=80, classes=9)
    task = marks(kind, len(labels))
    everything = np.ones(len(labels), bool)
    queries, gallery = (np.flatnonzero(task.get(name, everything)) for name in ("queries", "gallery"))
    scores = {query: super_global(embeddings, query, gallery, candidates, k, beta) for query in queries}
    expected = ranks_by(lambda query, row: scores[query][row], labels, queries, gallery)
    spec = f"super_global(candidates={candidates}, k={k}, beta={beta})"
    assert found_ranks(spec, embeddings, labels, task) == expected
    assert found_ranks(spec, embeddings, labels, task, first_only=True) == {q: r[:1] for q, r in expected.items()}


def test_it_changes_the_ranks_of_the_first_images_only():
    embeddings, labels = example(rows=200, classes=10)
    plain = found_ranks("super_global(candidates=1)", embeddings, labels, {})
    reranked = found_ranks("super_global(candidates=60)", embeddings, labels, {})
    assert any(reranked[row] != plain[row] for row in plain)
    late = {row: [rank for rank in ranks if rank > 60] for row, ranks in plain.items()}
    assert {row: [rank for rank in ranks if rank > 60] for row, ranks in reranked.items()} == late


def test_a_collapsed_embedding_is_not_made_good():
    labels = np.repeat(np.arange(30), 3)
    ranks = found_ranks("super_global(candidates=200)", np.ones((90, 4)), labels, {})
    assert all(each == [88, 89] for each in ranks.values())

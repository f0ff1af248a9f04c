"""Recall@K against a naive count, ties against the model, and bad input."""

import numpy as np
import pytest

from tfdml.evaluation import recall_at_k, retrieval
from tfdml.evaluation.retrieval import negatives_ahead


def naive_recall(embeddings, labels, k):
    """Sorts every query's neighbours, those of other classes first where they are as near."""
    embeddings = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    hits = []
    for query, label in enumerate(labels):
        others = [row for row in range(len(labels)) if row != query]
        if not any(labels[row] == label for row in others):
            continue
        ranked = sorted(others, key=lambda row: (-embeddings[query] @ embeddings[row], labels[row] == label))
        hits.append(any(labels[row] == label for row in ranked[:k]))
    return np.mean(hits), len(hits)


@pytest.mark.parametrize("rows, classes, size", [(40, 5, 3), (97, 13, 8), (200, 60, 16)])
def test_equals_naive(rows, classes, size):
    rng = np.random.default_rng(rows)
    embeddings, labels = rng.normal(size=(rows, size)), rng.integers(0, classes, rows) * 1000 - 7
    measured = recall_at_k(embeddings, labels, ks=(1, 2, 5))
    for k in (1, 2, 5):
        recall, queries = naive_recall(embeddings, labels, k)
        assert measured[f"recall_at_{k}"] == pytest.approx(recall)
        assert measured["queries"] == queries


def test_blocks_do_not_show(monkeypatch):
    rng = np.random.default_rng(0)
    embeddings, labels = rng.normal(size=(300, 4)), rng.integers(0, 30, 300)
    whole = negatives_ahead(embeddings, labels)
    monkeypatch.setattr(retrieval, "BLOCK", 7)
    np.testing.assert_array_equal(negatives_ahead(embeddings, labels), whole)


def test_worked_out_by_hand():
    # On a line of angles: a query at 0 has its classmate at 3, one stranger nearer, at 1.
    angles = np.radians([0, 30, 10, 80])
    embeddings = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    labels = [0, 0, 1, 1]
    np.testing.assert_array_equal(negatives_ahead(embeddings, labels), [1, 1, 2, 1])
    assert recall_at_k(embeddings, labels, ks=(1, 2, 3)) == {
        "recall_at_1": 0.0,
        "recall_at_2": 0.75,
        "recall_at_3": 1.0,
        "queries": 4,
    }


@pytest.mark.parametrize("size", [1, 3, 64, 129])
def test_collapsed_embedding_scores_zero(size):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(50), 4)
    collapsed = np.tile(rng.normal(size=(1, size)), (200, 1))
    assert recall_at_k(collapsed, labels)["recall_at_8"] == 0.0
    nearly = collapsed * (1 + 1e-7 * rng.normal(size=(200, size)))
    assert recall_at_k(nearly, labels)["recall_at_1"] < 0.05


def test_perfect_embedding_scores_one():
    labels = np.repeat(np.arange(10), 3)
    assert recall_at_k(np.eye(10)[labels], labels)["recall_at_1"] == 1.0


def test_lonely_queries_are_left_out():
    measured = recall_at_k(np.eye(4)[[0, 0, 1, 2]], [5, 5, 6, 7])
    assert measured["queries"] == 2 and measured["recall_at_1"] == 1.0
    with pytest.raises(ValueError, match="needs a query with another image of its class"):
        recall_at_k(np.eye(3), [0, 1, 2])


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"1 of 3 embeddings are not finite; the first is row 1"):
        recall_at_k(np.array([[1.0], [np.nan], [2.0]]), [0, 0, 1])
    with pytest.raises(ValueError, match=r"received shapes \(3, 1\) and \(2,\)"):
        recall_at_k(np.ones((3, 1)), [0, 0])

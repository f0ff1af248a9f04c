"""Metrics that take all levels of a hierarchy, against their definitions and scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, ndcg_score

from pipelines.datasets import Split
from tfdml import registry
from tfdml.evaluation import evaluate
from tfdml.evaluation.metrics import metric_of
from tfdml.evaluation.metrics.graded_ranks import shared_levels


def example(seed=0, rows=40):
    random = np.random.default_rng(seed)
    fine = random.integers(0, 9, rows)
    levels = np.stack([fine // 6, fine // 3, fine], axis=1)
    centers = random.normal(size=(9, 5))
    return (centers[fine] + 1.5 * random.normal(size=(rows, 5))).astype(np.float32), levels


def ranking(embeddings, levels, query):
    """Levels shared with the others, nearest first."""
    others = [row for row in range(len(levels)) if row != query]
    others.sort(key=lambda row: np.sum((embeddings[query].astype(float) - embeddings[row]) ** 2))
    return [sum(a == b for a, b in zip(levels[query], levels[row], strict=True)) for row in others]


def hierarchical_ap(embeddings, levels, alpha):
    """The equation word by word."""
    values, count = [], levels.shape[1]
    for query in range(len(levels)):
        shared = ranking(embeddings, levels, query)
        rel = [(level / count) ** alpha / shared.count(level) for level in shared]
        if not sum(rel):
            continue
        total = 0.0
        for k in range(len(shared)):
            if shared[k]:
                h_rank = rel[k] + sum(min(rel[k], rel[j]) for j in range(k) if shared[j])
                total += h_rank / (k + 1)
        values.append(total / sum(rel))
    return np.mean(values)


@pytest.mark.parametrize("alpha", [1.0, 2.5])
def test_hierarchical_ap_equals_its_equation(alpha):
    embeddings, levels = example()
    found = metric_of(f"hierarchical_ap(alpha={alpha})").value(embeddings, levels)
    assert found == pytest.approx(hierarchical_ap(embeddings, levels, alpha)) and 0.1 < found < 0.9


def test_with_one_level_it_is_average_precision():
    embeddings, levels = example()
    fine, expected = levels[:, 2], []
    for query in range(len(fine)):
        same, others = fine == fine[query], np.arange(len(fine)) != query
        if np.sum(same & others):
            scores = -np.sum((embeddings.astype(float) - embeddings[query]) ** 2, axis=1)
            expected.append(average_precision_score(same[others], scores[others]))
    assert metric_of("hierarchical_ap").value(embeddings, fine) == pytest.approx(np.mean(expected))


def test_ndcg_equals_scikit_learn():
    embeddings, levels = example(1)
    expected = []
    for query in range(len(levels)):
        gains = 2.0 ** np.array(ranking(embeddings, levels, query)) - 1
        expected.append(ndcg_score(gains[None], -np.arange(len(gains))[None]))
    assert metric_of("ndcg").value(embeddings, levels) == pytest.approx(np.mean(expected))


def test_a_perfect_embedding_has_one_and_a_collapsed_one_less_than_a_random_one():
    _, levels = example()
    perfect = np.concatenate([np.eye(9)[levels[:, 2]], 3 * np.eye(3)[levels[:, 1]], 9 * np.eye(2)[levels[:, 0]]], 1)
    for name in ("hierarchical_ap", "ndcg"):
        metric = metric_of(name)
        assert metric.value(perfect.astype(np.float32), levels) == pytest.approx(1)
        collapsed = metric.value(np.ones((len(levels), 3), np.float32), levels)
        assert collapsed < metric.value(np.random.default_rng(0).normal(size=(len(levels), 3)), levels)
        assert metric.value(perfect[:2], np.array([[0, 0], [1, 1]])) is None


def test_blocks_change_nothing(monkeypatch):
    embeddings, levels = example()
    whole = np.concatenate(list(shared_levels(embeddings, levels)))
    monkeypatch.setattr("tfdml.evaluation.metrics.graded_ranks.BLOCK", 3 * len(levels))
    np.testing.assert_array_equal(np.concatenate(list(shared_levels(embeddings, levels))), whole)


@pytest.fixture
def rows():
    _, levels = example()
    images = np.array([str(row) for row in range(len(levels))], dtype=object)
    names = ("family", "genus", "class")
    return Split(images, levels[:, 2], hierarchy=levels, level_names=names)


def test_the_protocol_measures_each_level(rows):
    embeddings, levels = example()
    protocol = registry.create("protocol", "levels(metrics=('recall_at_1', 'ndcg', 'map_at_r', 'nmi'))")
    found = protocol(embeddings, rows)
    for place, suffix in ((0, "_of_family"), (1, "_of_genus"), (2, "")):
        expected = evaluate(embeddings, levels[:, place], ("recall_at_1", "map_at_r"))
        for name in ("recall_at_1", "map_at_r"):
            assert found[f"{name}{suffix}"] == expected[name]
    of_ranks = [f"{name}{suffix}" for name in ("recall_at_1", "map_at_r") for suffix in ("", "_of_family", "_of_genus")]
    assert list(found) == [*of_ranks[:3], "ndcg", *of_ranks[3:], "nmi", "queries"]
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    assert found["ndcg"] == pytest.approx(metric_of("ndcg").value(unit, levels))


def test_it_needs_levels(rows):
    import dataclasses

    with pytest.raises(ValueError, match="classes with levels; give --levels"):
        registry.create("protocol", "levels")(example()[0], dataclasses.replace(rows, hierarchy=None))

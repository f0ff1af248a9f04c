"""How learners differ."""

import functools

import numpy as np
import pytest

from tfdml.evaluation.diversity import (
    NONE_OF,
    correlation,
    diversity,
    learners_of,
    negative_distances,
    only_one_right,
    pair_cosines,
)
from tfdml.evaluation.evaluate import evaluate

METRICS = ("recall_at_1", "recall_at_4")


def random_learners(rows=60, count=3, dim=4, seed=0):
    learners = np.random.default_rng(seed).normal(size=(rows, count, dim))
    return learners / np.linalg.norm(learners, axis=2, keepdims=True)


def test_learners_come_back_from_the_embedding():
    learners = random_learners()
    np.testing.assert_allclose(learners_of(learners.reshape(60, 12) / np.sqrt(3), 3), learners)


def test_recall_of_each_learner_and_of_the_first_ones():
    learners, labels = random_learners(), np.arange(60) // 4
    embeddings = learners.reshape(60, 12) / np.sqrt(3)
    found = diversity(embeddings, labels, 3, lambda each: evaluate(each, labels, METRICS))
    assert found["alone"][1] == evaluate(learners[:, 1], labels, METRICS)
    assert found["first"][0] == found["alone"][0]
    assert found["first"][1] == evaluate(learners[:, :2].reshape(60, 8), labels, METRICS)
    assert found["first"][2] == evaluate(learners.reshape(60, 12), labels, METRICS)
    assert len(found["only_one"]) == 3


def test_metrics_without_a_value_do_not_count_in_the_mean():
    values = iter([0.2, None, 0.6])
    measure = lambda each: {"some": next(values, None), "none": None}  # noqa: E731
    found = diversity(random_learners().reshape(60, 12), np.arange(60) // 4, 3, measure)
    assert found["mean"] == {"some": pytest.approx(0.4), "none": None}
    assert found["deviation"] == {"some": pytest.approx(np.std([0.2, 0.6], ddof=1)), "none": None}


def test_correlation_is_the_mean_over_dimensions_of_different_learners():
    learners = random_learners(rows=40, count=3, dim=2)
    flat, naive = learners.reshape(40, 6), []
    for i in range(6):
        naive += [abs(np.corrcoef(flat[:, i], flat[:, j])[0, 1]) for j in range(6) if i // 2 != j // 2]
    assert correlation(learners) == pytest.approx(np.mean(naive))
    same = np.repeat(learners[:, :1, :1], 3, axis=1)
    assert correlation(same) == pytest.approx(1.0)
    assert correlation(learners[:, :1]) == 0.0


def test_zeros_that_fill_up_a_smaller_learner_do_not_count_in_the_correlation():
    learners = random_learners(rows=40, count=2, dim=3)
    learners[:, 1, 2] = 0.0
    naive = [abs(np.corrcoef(learners[:, 0, i], learners[:, 1, j])[0, 1]) for i in range(3) for j in range(2)]
    assert correlation(learners) == pytest.approx(np.mean(naive))
    assert correlation(np.zeros((5, 2, 3))) == 0.0


def test_learners_count_together_by_their_weights():
    learners, labels, weights = random_learners(), np.arange(60) // 4, (4.0, 1.0, 0.25)
    scaled = learners * np.sqrt(weights)[:, None]
    measure = functools.partial(evaluate, labels=labels, metrics=METRICS)
    found = diversity(scaled.reshape(60, 12), labels, 3, measure, weights=weights)
    equal = diversity(scaled.reshape(60, 12), labels, 3, measure)
    assert found["alone"] == equal["alone"]
    assert found["first"][1] == measure(scaled[:, :2].reshape(60, 8)) != equal["first"][1]


def test_images_that_only_one_learner_gets_right():
    """Learner 0 separates the classes. For learner 1, class 0 is mixed with the other classes."""
    rows = 2 * NONE_OF + 8
    labels = np.array([0, 0] + [1 + row // 2 for row in range(rows - 2)])
    good = np.eye(labels.max() + 1)[labels]
    bad = good.copy()
    bad[0], bad[1] = good[2] + 1e-3 * good[0], -good.sum(axis=0)
    learners = np.stack([good, bad / np.linalg.norm(bad, axis=1, keepdims=True)], axis=1)
    found = only_one_right(learners, labels)
    assert set(found[0]) >= {1} and set(found[0]) <= {0, 1} and len(found[1]) == 0
    assert only_one_right(learners[:, :1], labels) == [[]]


def test_cosines_of_pairs():
    learners, labels = random_learners(rows=40, count=3), np.repeat(np.arange(11), 4)[:40]
    learners[:, 1] = learners[:, 0]
    found = pair_cosines(learners, labels)
    products = np.einsum("ikd,jld->ikjl", learners, learners)
    naive = {"positive": [], "negative": [], "self": []}
    for i in range(40):
        naive["self"] += [products[i, k, i, m] for k in range(3) for m in range(3) if k != m]
        for j in set(range(40)) - {i}:
            naive["positive" if labels[i] == labels[j] else "negative"] += [products[i, k, j, k] for k in range(3)]
    for kind, cosines in naive.items():
        assert found[f"mean_{kind}"] == pytest.approx(np.mean(cosines), abs=0.02)
        expected = np.histogram(np.clip(cosines, -1, 1), found["edges"])[0] / len(cosines)
        np.testing.assert_allclose(found[kind], expected, atol=0.02)
    alone = pair_cosines(learners[:, :1], np.arange(40))
    assert alone["mean_self"] is None and alone["mean_positive"] is None and alone["mean_negative"] is not None


def test_negative_pairs_within_clusters_are_nearer_where_clusters_are():
    random = np.random.default_rng(0)
    clusters = np.arange(200) % 2
    embeddings = random.normal(size=(200, 3)) + 5 * np.array([1, -1])[clusters][:, None]
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    found = negative_distances(embeddings, np.arange(200) // 4, clusters)
    assert sum(found["within"]) == pytest.approx(1) and sum(found["between"]) == pytest.approx(1)
    pairs = [(i, j) for i in range(200) for j in range(200) if i // 4 != j // 4]
    for name, alike in (("within", True), ("between", False)):
        naive = [
            np.linalg.norm(embeddings[i] - embeddings[j]) for i, j in pairs if (clusters[i] == clusters[j]) == alike
        ]
        assert found[f"mean_{name}"] == pytest.approx(np.mean(naive), rel=0.02)
    assert negative_distances(embeddings, np.arange(200), np.zeros(200))["mean_between"] is None

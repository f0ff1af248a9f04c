"""Bootstrap intervals: a naive loop with the same draws, how often they cover the mean, and bad input."""

import numpy as np
import pytest

from tfdml.evaluation.statistics import bootstrap_intervals, degrees_of


def naive_interval(values, clusters, samples, seed):
    """Draws one resample after another, and lists the queries in it."""
    random, means = np.random.default_rng(seed), []
    queries = [np.flatnonzero(clusters == number) for number in np.unique(clusters)]
    for _ in range(samples):
        drawn = [queries[number] for number in random.integers(len(queries), size=len(queries))]
        means.append(np.mean([values[query] for group in drawn for query in group]))
    return np.percentile(means, [2.5, 97.5])


# One resample at a time, several, and all at once.
@pytest.mark.parametrize("memory", [1, 5000, 2**30])
@pytest.mark.parametrize("by_class", [False, True])
def test_intervals_equal_those_of_a_naive_loop_with_the_same_draws(by_class, memory):
    random = np.random.default_rng(0)
    labels = random.integers(3, 12, 41) ** 2
    per_query = {"recall_at_1": random.integers(0, 2, 41).astype(float), "map": random.random(41)}
    found = bootstrap_intervals(per_query, labels if by_class else None, samples=150, seed=5, memory=memory)
    for name, values in per_query.items():
        expected = naive_interval(values, labels if by_class else np.arange(41), 150, 5)
        assert found[name] == pytest.approx(expected, abs=1e-12)


def test_the_seed_determines_the_interval():
    values = {"map": np.random.default_rng(0).random(30)}
    assert bootstrap_intervals(values) == bootstrap_intervals(values, seed=0)
    assert bootstrap_intervals(values) != bootstrap_intervals(values, seed=1)
    # If each query has its own class, queries are drawn.
    assert bootstrap_intervals(values, np.arange(30)) == bootstrap_intervals(values)


def test_clusters_of_other_sizes_have_fewer_degrees_of_freedom():
    assert degrees_of([3] * 24) == pytest.approx(23)
    assert degrees_of([1, 2, 3]) == pytest.approx(36 / 14 - 1) and degrees_of([1000, 1, 1]) == 1


TRIALS, CLASSES, SIZE = 300, 40, 8
LABELS = np.repeat(np.arange(CLASSES), SIZE)


def coverage(of_query, mean, clusters):
    """The fraction of trials with an interval that covers the mean.

    Args:
        of_query: function of a random generator to values for each query.
        mean: the mean that they are drawn with.
        clusters: as of `bootstrap_intervals`.
    """
    covered = 0
    for trial in range(TRIALS):
        values = of_query(np.random.default_rng([7, trial]))
        low, high = bootstrap_intervals({"": values}, clusters, samples=300, seed=trial)[""]
        covered += low <= mean <= high
    return covered / TRIALS


def by_class(random):
    return np.repeat(random.normal(0.5, 0.2, CLASSES), SIZE) + random.normal(0, 0.2, CLASSES * SIZE)


def test_intervals_over_queries_cover_the_mean_of_independent_queries():
    assert 0.91 < coverage(lambda random: random.random(CLASSES * SIZE) < 0.7, 0.7, None) < 0.98


def test_where_classes_differ_only_intervals_over_classes_cover_the_mean():
    assert 0.90 < coverage(by_class, 0.5, LABELS) < 0.98
    assert coverage(by_class, 0.5, None) < 0.75


def test_paired_differences_are_found_that_the_intervals_of_both_models_hide():
    random = np.random.default_rng(0)
    difficulty = by_class(random)
    a, b = (difficulty + random.normal(gain, 0.02, len(difficulty)) for gain in (0.0, 0.01))
    found = bootstrap_intervals({"a": a, "b": b, "difference": b - a}, LABELS)
    assert found["a"][1] > found["b"][0]
    assert 0 < found["difference"][0] < 0.01 < found["difference"][1] < 0.02


@pytest.mark.parametrize(
    "per_query, clusters, message",
    [
        ({}, None, "need a metric that is a mean over queries"),
        ({"map": np.ones(1)}, None, "at least two queries to draw from. Found 1"),
        ({"map": np.ones(4)}, np.zeros(4, int), "at least two classes with queries to draw from. Found 1"),
        ({"map": np.ones(4)}, np.zeros(3, int), "one cluster for each of the 4 queries. Received: 3"),
    ],
)
def test_bad_input(per_query, clusters, message):
    with pytest.raises(ValueError, match=message):
        bootstrap_intervals(per_query, clusters)

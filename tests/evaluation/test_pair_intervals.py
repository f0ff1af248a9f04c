"""Bootstrap intervals over classes, compared with resamples of all pairs, one class pair at a time."""

import json

import numpy as np
import pytest

from tests.commands import run
from tests.evaluation.naive_pairs import example, naive_pairs
from tfdml.evaluation.comparison import compare_pairs
from tfdml.evaluation.metrics import metrics_of
from tfdml.evaluation.queries import RetrievalTask
from tfdml.evaluation.verification.pairs import PairCounts, RetrievalPairs, best_matches
from tfdml.evaluation.verification.thresholds import metric_intervals, pair_intervals, resampled_pairs

METRICS = metrics_of(("roc_auc", "equal_error_rate", "tar_at_far_0.01", "d_prime", "pair_average_precision"))


def naive_intervals(scores, same, classes, samples=400):
    """Each resample counts a pair of classes as often as both are drawn."""
    random, values = np.random.default_rng(5), {metric.name: [] for metric in METRICS}
    known, places = np.unique(classes, return_inverse=True)
    places = places.reshape(classes.shape)
    order = np.argsort(scores)
    for _ in range(samples):
        times = np.bincount(random.integers(len(known), size=len(known)), minlength=len(known))
        weights = np.where(same, times[places[:, 0]], times[places[:, 0]] * times[places[:, 1]])[order]
        counts = PairCounts(scores[order], weights * same[order], weights * ~same[order])
        for metric in METRICS:
            values[metric.name].append(metric.value(counts))
    return {name: np.quantile(each, [0.025, 0.975]) for name, each in values.items()}


@pytest.mark.parametrize("how", ["alike", "divided", "overlapping"])
@pytest.mark.few_by_day(1)
def test_near_those_of_all_pairs(how):
    embeddings, labels = example(7, rows=240, classes=60, spread=0.5)
    queries = np.arange(len(labels)) % 3 == 0
    marks = {"divided": {"queries": queries, "gallery": ~queries}, "overlapping": {"queries": queries}}.get(how, {})
    if how == "overlapping":
        # Gallery-only images are much harder. Pairs of two queries occur in both directions but count once.
        embeddings = embeddings + np.where(queries, 0.0, 1.5)[:, None] * np.random.default_rng(0).normal(size=(240, 6))
    pairs = RetrievalPairs.of(embeddings, RetrievalTask.of(labels, **marks))
    found = metric_intervals(pairs, METRICS, samples=600)
    for name, (low, high) in naive_intervals(*naive_pairs(embeddings, labels, **marks)).items():
        width = high - low
        assert width > 0
        assert found[name] == pytest.approx([low, high], abs=0.2 * width), name


def test_intervals_hold_what_is_measured_where_they_are_narrow():
    random, labels = np.random.default_rng(1), np.repeat(np.arange(500), 4)
    embeddings = random.normal(size=(500, 16))[labels] + 0.6 * random.normal(size=(2000, 16))
    pairs = RetrievalPairs.of(embeddings, RetrievalTask.of(labels))
    (metric,) = metrics_of("tar_at_far_0.001")
    functions = {"rate": metric.value, "threshold": lambda counts: counts.above(counts.place_at(1e-3))}
    of_draws = {name: lambda counts, _, each=each: each(counts) for name, each in functions.items()}
    drawn = resampled_pairs(pairs, of_draws, samples=500)
    for name, function in functions.items():
        # Far nearer to the middle than to the ends.
        low, middle, high = np.quantile(drawn[name], [0.025, 0.5, 0.975])
        assert middle == pytest.approx(function(pairs.counts), abs=0.1 * (high - low)), name


@pytest.mark.nightly
def test_intervals_are_as_wide_as_values_of_fresh_classes_are_spread():
    """Weights t * u of pairs of classes would make intervals of pair_accuracy wider than values really spread."""
    metrics = metrics_of(("pair_accuracy", "roc_auc"))
    values, widths = [], []
    for seed in range(160):
        pairs = RetrievalPairs.of(*fresh_classes(seed))
        values.append([metric.value(pairs.counts) for metric in metrics])
        if seed < 8:
            found = metric_intervals(pairs, metrics, samples=300)
            widths.append([found[metric.name][1] - found[metric.name][0] for metric in metrics])
    low, high = np.quantile(values, [0.025, 0.975], axis=0)
    assert np.mean(widths, axis=0) == pytest.approx(high - low, rel=0.2)


def fresh_classes(seed, classes=50, of_each=6):
    """Returns embeddings of classes that the seed draws, each with its own spread, and their task."""
    random, labels = np.random.default_rng(seed), np.repeat(np.arange(classes), of_each)
    spread = 0.6 * np.exp(0.5 * random.normal(size=(classes, 1)))
    means = random.normal(size=(classes, 8))
    return means[labels] + spread[labels] * random.normal(size=(len(labels), 8)), RetrievalTask.of(labels)


def open_set(seed, rows=400, classes=80):
    """Embeddings, labels and task marks. One in three classes is not in the gallery."""
    embeddings, labels = example(seed, rows, classes, spread=0.5)
    gallery = (np.arange(rows) % 2 == 0) & (labels % 3 > 0)
    return embeddings, labels, {"gallery": gallery, "queries": ~gallery}


def test_open_set_identification_counts_each_query_as_often_as_its_class_is_drawn():
    embeddings, labels, marks = open_set(3)
    (metric,) = metrics_of("dir_at_far_0.1")
    pairs = RetrievalPairs.of(embeddings, RetrievalTask.of(labels, **marks))
    value, random = metric.of_draws(pairs), np.random.default_rng(0)
    numbers = pairs.task.labels
    assert value(None, np.ones(numbers.max() + 1)) == metric.value_of_pairs(pairs)
    own, others = best_matches(pairs)
    for _ in range(20):
        times = random.integers(0, 4, numbers.max() + 1).astype(float)
        rows = np.repeat(np.arange(len(own)), times[numbers[pairs.queries]].astype(int))
        known = own[rows] > 0
        strangers = np.sort(others[rows][~known])[::-1]
        above = strangers[int(0.1 * len(strangers))]
        expected = np.mean((own > others)[rows][known] & (own[rows][known] > above))
        assert value(None, times) == pytest.approx(expected)
    low, high = metric_intervals(pairs, [metric], samples=300)[metric.name]
    assert low < metric.value_of_pairs(pairs) < high
    # No class is unknown, and then no class is known.
    strangers = np.ones(numbers.max() + 1)
    strangers[np.unique(numbers[pairs.queries[own == 0]])] = 0
    assert value(None, strangers) is None and value(None, 1 - strangers) is None


def test_the_variance_over_classes_counts_each_as_often_as_it_is_drawn():
    embeddings, labels = example(4, rows=200, classes=30)
    (metric,) = metrics_of("opis")
    pairs = RetrievalPairs.of(embeddings, RetrievalTask.of(labels))
    known, served = metric._served(pairs)
    value, random = metric.of_draws(pairs), np.random.default_rng(0)
    assert known.all() and value(None, np.ones(30)) == pytest.approx(metric.value_of_pairs(pairs))
    for _ in range(10):
        times = np.bincount(random.integers(30, size=30), minlength=30)
        expected = np.mean(np.var(np.repeat(served, times, axis=0), axis=0))
        assert value(None, times.astype(float)) == pytest.approx(expected)
    assert value(None, np.zeros(30)) is None


@pytest.mark.slow
def test_paired_differences_are_narrower_than_those_of_other_classes():
    embeddings, labels = example(7, rows=400, classes=80, spread=0.5)
    noisy = embeddings + 0.2 * np.random.default_rng(0).normal(size=embeddings.shape)
    metrics = metrics_of(("roc_auc", "opis"))
    one, other = (RetrievalPairs.of(each, RetrievalTask.of(labels)) for each in (embeddings, noisy))
    found = compare_pairs({"x": [one], "y": [other]}, metrics, samples=300)
    draws = [
        resampled_pairs(each, {metric.name: metric.of_draws(each) for metric in metrics}, samples=300, seed=0)
        for each in (one, other)
    ]
    for metric in metrics:
        each = found[metric.name]
        assert each["a"] == metric.value_of_pairs(one) and each["difference"] == pytest.approx(each["b"] - each["a"])
        deviation = np.std(draws[1][metric.name] - draws[0][metric.name])
        assert np.mean(each["interval"]) == pytest.approx(each["difference"]) and "a_std" not in each
        # The 0.975 quantile of t with 79 degrees of freedom is 1.99; resamples estimate it.
        assert np.ptp(each["interval"]) / 2 == pytest.approx(1.99 * deviation, rel=0.2)
    each = found["roc_auc"]
    assert each["better"] == "a" and each["interval"][1] < 0
    alone = resampled_pairs(other, {"roc_auc": metrics[0].of_draws(other)}, samples=300, seed=1)["roc_auc"]
    assert np.ptp(each["interval"]) < 0.7 * np.ptp(np.quantile(alone - draws[0]["roc_auc"], [0.025, 0.975]))
    same = compare_pairs({"x": [one, other], "y": [other, one]}, metrics, samples=100)["roc_auc"]
    assert same["difference"] == 0 and same["better"] is None and same["a_std"] == same["b_std"] > 0
    three = compare_pairs({"x": [one], "y": [other], "z": [other]}, metrics, samples=200)["roc_auc"]
    assert three["x"]["mean"] == each["a"] and [pair["better"] for pair in three["pairs"]] == ["x", "x", None]


def test_metrics_without_a_value_are_not_compared():
    embeddings, labels = example(7, rows=40, classes=8)
    pairs = RetrievalPairs.of(embeddings, RetrievalTask.of(labels))
    with pytest.raises(ValueError, match="tar_at_far_1e-6 cannot be computed because there are too few pairs"):
        compare_pairs({"x": [pairs], "y": [pairs]}, metrics_of("tar_at_far_0.000001"))


def test_one_class_has_no_interval():
    labels = np.zeros(4, int)
    task = RetrievalTask(labels, np.arange(4), np.arange(4))
    with pytest.raises(ValueError, match="at least two classes to draw from. Found one"):
        pair_intervals(RetrievalPairs.of(np.eye(4), task), {})


@pytest.mark.nightly
def test_the_command_prints_them_where_classes_are_drawn(tmp_path):
    embeddings, labels = example(7, rows=160, classes=40)
    np.savez(tmp_path / "test.npz", embeddings=embeddings, labels=labels)
    given = (f"--embeddings={tmp_path}/test.npz", "--metrics=recall_at_1,roc_auc,opis", "--bootstrap=classes")
    found = json.loads(run("tfdml.evaluate", *given).stdout.splitlines()[-1])
    assert found["intervals"].keys() == {"recall_at_1", "roc_auc", "opis"}
    low, high = found["intervals"]["opis"]
    assert 0 < low < found["opis"] < high
    low, high = found["intervals"]["roc_auc"]
    assert low < found["roc_auc"] < high
    found = json.loads(run("tfdml.evaluate", *given, "--metrics=roc_auc").stdout.splitlines()[-1])
    assert found["intervals"] == {"roc_auc": [low, high]}
    done = run("tfdml.evaluate", *given, "--metrics=roc_auc", "--bootstrap=queries")
    assert "a mean over queries" in done.stderr and json.loads(done.stdout.splitlines()[-1])["roc_auc"]

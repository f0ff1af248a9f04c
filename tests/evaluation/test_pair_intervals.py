"""Bootstrap intervals over classes against resamples of all pairs, one class pair after another."""

import json

import numpy as np
import pytest

from tests.commands import run
from tests.evaluation.naive_pairs import example, naive_pairs
from tfdml.evaluation.metrics import metrics_of
from tfdml.evaluation.search import Search
from tfdml.evaluation.verification.pair_counts import PairCounts
from tfdml.evaluation.verification.pair_intervals import pair_intervals
from tfdml.evaluation.verification.pairs import Pairs

METRICS = metrics_of(("roc_auc", "equal_error_rate", "tar_at_far_0.01", "d_prime"))


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


@pytest.mark.parametrize("divided", [False, True])
def test_near_those_of_all_pairs(divided):
    embeddings, labels = example(7, rows=240, classes=60, spread=0.5)
    queries = np.arange(len(labels)) % 3 == 0
    marks = {"queries": queries, "gallery": ~queries} if divided else {}
    pairs = Pairs.of(embeddings, Search.of(labels, **marks))
    found = pair_intervals(pairs, {metric.name: metric.value for metric in METRICS}, samples=600)
    for name, (low, high) in naive_intervals(*naive_pairs(embeddings, labels, **marks)).items():
        width = high - low
        assert width > 0
        assert found[name] == pytest.approx([low, high], abs=0.2 * width), name


def test_one_class_has_no_interval():
    labels = np.zeros(4, int)
    search = Search(labels, np.arange(4), np.arange(4))
    with pytest.raises(ValueError, match="there is one class"):
        pair_intervals(Pairs.of(np.eye(4), search), {})


def test_the_command_prints_them_where_classes_are_drawn(tmp_path):
    embeddings, labels = example(7, rows=160, classes=40)
    np.savez(tmp_path / "test.npz", embeddings=embeddings, labels=labels)
    given = (f"--embeddings={tmp_path}/test.npz", "--metrics=recall_at_1,roc_auc,opis", "--bootstrap=classes")
    found = json.loads(run("tfdml.evaluate", *given).stdout.splitlines()[-1])
    assert found["intervals"].keys() == {"recall_at_1", "roc_auc"} and found["opis"] > 0
    low, high = found["intervals"]["roc_auc"]
    assert low < found["roc_auc"] < high
    found = json.loads(run("tfdml.evaluate", *given, "--metrics=roc_auc").stdout.splitlines()[-1])
    assert found["intervals"] == {"roc_auc": [low, high]}
    done = run("tfdml.evaluate", *given, "--metrics=roc_auc", "--bootstrap=queries")
    assert "a mean over queries" in done.stderr and json.loads(done.stdout.splitlines()[-1])["roc_auc"]

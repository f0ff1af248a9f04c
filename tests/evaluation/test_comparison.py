"""Comparisons of models by their values for each query, computed by hand."""

import numpy as np
import pytest

from tfdml.evaluation.comparison import compare, compare_all, right_by_all
from tfdml.evaluation.metrics import RankMetric, metric_of
from tfdml.evaluation.scores import Scores
from tfdml.evaluation.statistics import bootstrap_intervals

RECALL = metric_of("recall_at_1")


def scores(*values, name="recall_at_1"):
    return Scores({}, np.arange(len(values)), {name: np.array(values, float)}, len(values))


def test_one_model_of_each():
    a, b = [scores(1, 0, 0, 1, 0)], [scores(1, 1, 1, 0, 0)]
    found = compare(a, b, [RECALL])["recall_at_1"]
    assert (found["a"], found["b"], found["difference"]) == (0.4, 0.6, pytest.approx(0.2))
    low, high = found["interval"]
    assert low < 0 < high and found["better"] is None
    alone = right_by_all({"a": a, "b": b})[1]
    assert (alone["a"].sum(), alone["b"].sum()) == (1, 2) and "a_std" not in found


def test_seeds_are_averaged_for_each_query():
    a = [scores(1, 1, 0), scores(0, 1, 0), scores(0, 1, 1)]
    b = [scores(0, 1, 0), scores(1, 0, 1)]
    found = compare(a, b, [RECALL])["recall_at_1"]
    assert (found["a"], found["b"]) == (pytest.approx(5 / 9), 0.5)
    # A's models have 2, 1 and 2 of 3 queries right, and B's models 1 and 2.
    assert found["a_std"] == pytest.approx(np.std([2, 1, 2], ddof=1) / 3)
    assert found["b_std"] == pytest.approx(np.std([1, 2], ddof=1) / 3)


def test_a_query_is_right_alone_if_all_runs_of_one_group_and_none_of_the_others_get_it_right():
    a, b = [scores(1, 1, 1, 0), scores(1, 1, 0, 0)], [scores(0, 1, 0, 1)]
    right, alone = right_by_all({"A": a, "B": b})
    assert right["A"].tolist() == [True, True, False, False] and right["B"].tolist() == [False, True, False, True]
    assert alone["A"].tolist() == [True, False, False, False] and alone["B"].tolist() == [False, False, False, True]


class FirstRank(RankMetric):
    name, larger_is_better = "first_rank", False


def test_what_is_better():
    low, high = scores(*np.linspace(0.1, 0.2, 9), name="map"), scores(*np.linspace(0.4, 0.6, 9), name="map")
    assert compare([low], [high], [metric_of("map")])["map"]["better"] == "b"
    assert compare([high], [low], [metric_of("map")])["map"]["better"] == "a"
    assert compare([low], [low], [metric_of("map")])["map"]["better"] is None
    low, high = scores(1, 2, 1, name="first_rank"), scores(8, 9, 9, name="first_rank")
    assert compare([low], [high], [FirstRank()])["first_rank"]["better"] == "a"
    assert compare([high], [low], [FirstRank()])["first_rank"]["better"] == "b"


def test_classes_are_drawn():
    a, b = scores(*np.zeros(8)), scores(1, 1, 1, 1, 0, 0, 0, 0)
    low, high = compare([a], [b], [RECALL], np.arange(8))["recall_at_1"]["interval"]
    # 7 degrees of freedom, and a standard error of (8 / 7)^0.5 * 0.5 / 8^0.5.
    assert [low, high] == pytest.approx([0.5 - 2.36 * 0.189, 0.5 + 2.36 * 0.189], abs=0.06)
    low, high = compare([a], [b], [RECALL], np.arange(8) // 4)["recall_at_1"]["interval"]
    # For two classes, it is unknown.
    assert low < -3 and high > 4


def test_all_pairs_of_three():
    random = np.random.default_rng(0)
    a = [scores(*random.normal(0.3, 0.05, 200)), scores(*random.normal(0.3, 0.05, 200))]
    b, c = ([scores(*random.normal(mean, 0.05, 200))] for mean in (0.301, 0.35))
    found = compare_all({"a": a, "b": b, "c": c}, [RECALL])["recall_at_1"]
    values = [np.mean([each.per_query["recall_at_1"] for each in group], axis=0) for group in (a, b, c)]
    assert [found[name]["mean"] for name in "abc"] == pytest.approx([np.mean(each) for each in values])
    assert "std" in found["a"] and "std" not in found["b"]
    assert found["c"]["interval"] == pytest.approx(bootstrap_intervals(c[0].per_query)["recall_at_1"])
    pairs = [(pair["first"], pair["second"], pair["better"]) for pair in found["pairs"]]
    assert pairs == [("a", "b", None), ("a", "c", "c"), ("b", "c", "c")]
    for pair, (first, second) in zip(found["pairs"], [(0, 1), (0, 2), (1, 2)], strict=True):
        low, high = pair["interval"]
        assert pair["difference"] == pytest.approx(np.mean(values[second] - values[first])) and low < pair["difference"]
        assert (pair["p"] < 0.05) == (pair["better"] is not None)
        # Wider than the interval of the pair alone: about 2.3 standard errors instead of 1.96.
        alone = np.diff(compare([a, b, c][first], [a, b, c][second], [RECALL])["recall_at_1"]["interval"])[0]
        assert 1.1 * alone < high - low < 1.35 * alone


def test_what_is_better_where_less_is():
    groups = {name: [scores(*values, name="first_rank")] for name, values in {"x": (8, 9, 9), "y": (1, 2, 1)}.items()}
    groups["z"] = [scores(8, 9, 9, name="first_rank")]
    found = compare_all(groups, [FirstRank()])["first_rank"]["pairs"]
    assert [pair["better"] for pair in found] == ["y", None, "y"] and found[1]["p"] == 1.0

"""Searches are replayed on recorded learning curves."""

import itertools
import json
import math

import pytest

from benchmarks.studies.replays import SEARCHES, Curve, key_of
from benchmarks.studies.rows.tuning import CHOICES, FIRST, STUDY
from benchmarks.studies.searchers import curves_of, table
from tfdml.console import flags

STEPS = range(0, 801, 50)
OF_OPTUNA = [name for name in SEARCHES if name.startswith("Optuna")]


@pytest.fixture
def curves():
    """Curves of all settings, of which each end is another; on the test all are a tenth lower."""
    found = {}
    for place, chosen in enumerate(itertools.product(*CHOICES.values())):
        changed = dict(FIRST)
        for name, value in itertools.chain.from_iterable(each.items() for each in chosen):
            changed[name] = f"--{name}={value}"
        end = 0.3 + 0.5 * (place * 31 % 72) / 72
        curve = Curve(changed, {step: end * (1 - math.exp(-step / 200)) for step in STEPS}, end - 0.1)
        found[curve.key] = curve
    return found


def test_the_study_has_a_row_for_each_setting(curves):
    assert len(STUDY.rows) == len(curves) == 72
    assert {key_of(flags.resolve(row)) for row in STUDY.rows.values()} == curves.keys()
    assert key_of(flags.resolve(STUDY.rows["the recipe"])) == key_of(FIRST)


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_finds_the_better_the_larger_its_budget_is(curves, name):
    if name in OF_OPTUNA:
        pytest.importorskip("optuna")
    means = [
        sum(SEARCHES[name](curves, budget * 800, 50, seed).test for seed in range(8)) / 8 for budget in (2, 10, 100)
    ]
    recipe = curves[key_of(FIRST)].test
    if name == "the recipe":
        assert means == pytest.approx([recipe] * 3)
    else:
        assert means[0] >= recipe - 1e-9 and means == sorted(means)
    assert SEARCHES[name](curves, 1, 50, 0) is curves[key_of(FIRST)]


def test_random_search_spends_no_more_than_its_budget(curves):
    """Of two trials and a half the recipe and another one."""
    search = SEARCHES["random search"]
    assert {search(curves, 849, 50, seed).key for seed in range(20)} == {key_of(FIRST)}
    assert len({search(curves, 2.5 * 850, 50, seed).key for seed in range(40)}) > 5
    assert search(curves, 72 * 850, 50, 0).test == max(curve.test for curve in curves.values())


def test_halving_finds_the_best_with_less(curves):
    budget, best = 30 * 850, max(curve.test for curve in curves.values())
    found = [
        [SEARCHES[name](curves, budget, 50, seed).test for seed in range(20)]
        for name in ("random search", "tfdml.tune")
    ]
    assert found[1].count(best) > found[0].count(best)


def test_curves_are_read_from_records(curves, tmp_path):
    curve = curves[key_of(FIRST)]
    events = [{"step": step, "split": "validation", "recall_at_1": value} for step, value in curve.values.items()]
    record = {"run": "one", "flags": list(flags.resolve(STUDY.rows["the recipe"]).values()), "curve": events}
    path = tmp_path / "tuning.jsonl"
    path.write_text(json.dumps({**record, "result": {"best": {"recall_at_1": 0.25}}}) + "\n")
    (found,) = curves_of(path).values()
    assert found.key == curve.key and found.values == curve.values and found.test == 0.25


def test_the_table_has_a_row_for_each_search(curves, monkeypatch):
    for name in OF_OPTUNA:
        monkeypatch.delitem(SEARCHES, name)
    lines = table(curves, [3, 10], 50, 2).splitlines()
    assert lines[0] == "| search | 3 × 800 steps | 10 × 800 steps |"
    assert [line.split(" | ")[0] for line in lines[2:]] == [
        "| the recipe",
        "| random search",
        "| tfdml.tune",
        "| the best of all",
    ]

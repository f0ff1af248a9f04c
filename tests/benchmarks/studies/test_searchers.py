"""Searches are replayed on recorded learning curves."""

import json
import math
import re

import pytest

from benchmarks.studies.replays import CHOSEN, SEARCHES, Curve
from benchmarks.studies.rows.tuning import STUDY
from benchmarks.studies.searchers import RECIPE, curves_of, table
from tfdml.console import flags
from tfdml.console import flags as flags_module

STEPS = range(0, 401, 40)
# `make test` spares its users what only this benchmark needs.
NOT_INSTALLED = "the extra bench is not installed; setup.py lists it"
OF_OPTUNA = [name for name in SEARCHES if name.startswith("Optuna")]


@pytest.fixture
def curves():
    """Curves of all rows of the study, of which each end is another; on the test all are a tenth lower."""
    found = []
    for place, row in enumerate(STUDY.rows.values()):
        end = 0.3 + 0.5 * ((place + 40) * 31 % 72) / 72
        found.append(Curve(flags.resolve(row), {step: end * (1 - math.exp(-step / 100)) for step in STEPS}, end - 0.1))
    return found


def test_the_study_has_a_row_for_each_combination():
    found = {tuple(flags.resolve(row)[name] for name in CHOSEN) for row in STUDY.rows.values()}
    assert len(found) == len(STUDY.rows) == 6 * 3 * 2 * 2


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_finds_the_better_the_larger_its_budget_is(curves, name):
    if name in OF_OPTUNA:
        pytest.importorskip("optuna", reason=NOT_INSTALLED)
    reached = {
        budget: [SEARCHES[name](curves, budget * 420, 20, seed).test for seed in range(8)] for budget in (2, 10, 100)
    }
    means = [sum(values) / len(values) for values in reached.values()]
    if name == "default configuration":
        assert means == pytest.approx([curves[0].test] * 3)
    else:
        assert means[0] >= curves[0].test - 1e-9 and means == sorted(means)
    assert SEARCHES[name](curves, 1, 20, 0) is curves[0]


@pytest.mark.parametrize("name", OF_OPTUNA)
def test_optuna_takes_curves_in_random_order_where_combinations_are_missing(curves, name):
    pytest.importorskip("optuna", reason=NOT_INSTALLED)
    found = {SEARCHES[name](curves[:50], 10 * 420, 20, seed).test for seed in range(8)}
    assert len(found) > 1 and min(found) > curves[0].test - 1e-9


def test_random_search_spends_no_more_than_its_budget(curves):
    """Of two trials and a half the recipe and another one."""
    search = SEARCHES["random search"]
    assert {search(curves, 419 + 420, 20, seed).test for seed in range(20)} == {curves[0].test}
    assert len({search(curves, 2.5 * 420, 20, seed).test for seed in range(40)}) > 5
    assert search(curves, 72 * 420, 20, 0).test == max(curve.test for curve in curves)


def test_halving_finds_the_best_with_less(curves):
    best = max(curve.test for curve in curves)
    searches = SEARCHES["random search"], SEARCHES["`tfdml.tune`"]
    drawn, halved = ([search(curves, 15 * 420, 20, seed).test for seed in range(20)] for search in searches)
    assert halved.count(best) > drawn.count(best)


def test_between_evaluations_a_curve_is_what_it_was(curves):
    values = Curve({}, {0: 0.5, 40: 0.25, 80: 0.75}, 0.0)
    assert (values.best([79]), values.best([0, 40]), values.best([80]), values.length) == (0.25, 0.5, 0.75, 80)


def record_of(curve, number, steps=400, seed=0):
    events = [{"step": step, "split": "validation", "recall_at_1": value} for step, value in curve.values.items()]
    given = {**curve.flags, "steps": f"--steps={steps}", "seed": f"--seed={seed}"}
    result = {"best": {"recall_at_1": curve.test}}
    return {"run": f"run {number}", "flags": list(given.values()), "curve": events, "result": result}


def test_curves_are_read_from_records_the_recipe_first(curves, tmp_path):
    pairs = [curve for curve in curves if "image_size=128" in curve.flags["image_size"]]
    records = [record_of(curve, number) for number, curve in enumerate(pairs[::-1])]
    records += [record_of(curves[0], "of another length", steps=800), record_of(curves[0], "of another seed", seed=1)]
    path = tmp_path / "tuning.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    found = curves_of(path, 400, f"{RECIPE} --method='{flags_module.RECIPE['method']}'")
    assert found[0].values == pytest.approx(curves[0].values, abs=1e-5)
    assert len(found) == len(pairs) and found[0].test == pytest.approx(curves[0].test, abs=1e-5)
    with pytest.raises(ValueError, match="must have one run of 400 steps with --loss=.* Found: 2 runs"):
        curves_of(path, 400)


@pytest.mark.nightly
def test_the_tables_of_the_docs_are_those_of_the_records(request, monkeypatch):
    """But for those of Optuna where it is not installed."""
    page = (request.config.rootpath / "docs/searches.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^python -m benchmarks.studies.searchers (.*)$", page, re.MULTILINE)
    tables = re.findall(r"^\| Search among \d+ settings.*?\n\n", page, re.MULTILINE | re.DOTALL)
    files = command.split()
    assert len(tables) == len(files) == 2
    for name in OF_OPTUNA:
        monkeypatch.delitem(SEARCHES, name)
    for file, found in zip(files, tables, strict=True):
        printed = table(curves_of(request.config.rootpath / file, 400), [2, 3, 5, 10, 20], 20, 200).splitlines()
        rows = [line for line in found.strip().splitlines() if not line.startswith("| Optuna")]
        assert rows[0] == printed[0] and rows[2:] == printed[2:]

"""The tables of effects and of changes cover every dataset and agree with the records."""

import functools
import importlib
import re

import pytest

from benchmarks import evidence
from benchmarks.pages import advice
from benchmarks.pages.catalog import SOURCES
from benchmarks.pages.papers import PAPERS
from benchmarks.pages.recorded import Recorded
from benchmarks.studies import rows


def study_of(source):
    return importlib.import_module(f"{rows.__name__}.{SOURCES[source].study}").STUDY


@pytest.fixture(scope="module")
def recorded_of(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return functools.cache(lambda name: Recorded(SOURCES[name], folder))


def test_every_effect_has_its_rows_in_the_studies():
    shown = [(effect, pair) for several in PAPERS.values() for effect in several for pair in effect.shown.values()]
    shown += [(change, pair) for change in advice.CHANGES for pair in change.shown.values()]
    for each, (source, pair) in shown:
        names = pair.partition(" [")[0].split(" minus ")
        assert len(names) == 2 and set(names) <= study_of(source).rows.keys(), f"{each.text}: {source}"
    of_cars = [effect.shown.get("cars") for several in PAPERS.values() for effect in several]
    assert len(of_cars) >= 24 and all(of_cars)
    advised = [change.shown["cars"] for change in advice.CHANGES if "cars" in change.shown]
    assert {source for source, _ in of_cars + advised} == {name for name in SOURCES if name.startswith("cars_")}


def test_every_effect_has_its_dot_for_cars(recorded_of):
    texts = evidence.first_page(recorded_of)
    table = [line for line in texts["README.md"].splitlines() if re.search(r"\]\([\w.#-]+\) \|$", line)]
    effects = [line for line in table if line.startswith(tuple(f"| {paper} |" for paper in PAPERS))]
    assert len(effects) == sum(map(len, PAPERS.values()))
    changes = [line for line in table if line.startswith(tuple(f"| {change.text} |" for change in advice.CHANGES))]
    assert len(changes) == sum("cars" in change.shown for change in advice.CHANGES)
    told = advice.table(recorded_of).splitlines()
    assert told[0].endswith("| Cars | Recommendation |") and told[2].endswith("| 41 |  |")


def test_advice_that_the_records_do_not_hold_is_an_error(recorded_of, monkeypatch):
    change = advice.CHANGES[0]._replace(claims={"emoji": "worse"})
    monkeypatch.setattr(advice, "CHANGES", [change])
    with pytest.raises(ValueError, match=r"expected an interval below 0 on emoji\. The records have"):
        advice.table(recorded_of)


def test_the_table_of_the_docs_is_that_of_the_records(recorded_of):
    page = evidence.CHOOSING.read_text(encoding="utf-8")
    assert evidence.advice_page(recorded_of) == page, "run: python -m benchmarks.evidence"


def test_a_page_without_the_place_of_the_table_is_refused(recorded_of, monkeypatch, tmp_path):
    monkeypatch.setattr(evidence, "CHOOSING", tmp_path / "choosing.md")
    evidence.CHOOSING.write_text("# Choosing\n")
    with pytest.raises(ValueError, match="choosing.md must have the lines <!--"):
        evidence.advice_page(recorded_of)

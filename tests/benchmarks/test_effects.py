"""The tables of effects and of changes cover every dataset and agree with the records."""

import functools
import importlib

import pytest

from benchmarks import evidence
from benchmarks.pages import advice
from benchmarks.pages.catalog import SOURCES
from benchmarks.pages.evidence_of_claims import DECISIVE, NAMES
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
    of_cars = [effect.shown["cars"] for several in PAPERS.values() for effect in several if "cars" in effect.shown]
    assert len(of_cars) >= 24
    advised = [change.shown["cars"] for change in advice.CHANGES if "cars" in change.shown]
    on_cars = {name for name in SOURCES if name.startswith("cars_")}
    assert {source for source, _ in of_cars + advised} == on_cars | {DECISIVE}


@pytest.mark.slow
def test_every_claim_and_every_change_has_its_rows(recorded_of, tmp_path):
    texts = evidence.summaries(recorded_of, tmp_path)
    page = texts["reproduced.md"]
    for paper, claims in PAPERS.items():
        assert f"## {paper}\n" in page
        for effect in claims:
            assert page.count(f"\n| {effect.text} | ") == 1 and page.count(f"\n### {effect.text}\n") == 1
    shown = [name for claims in PAPERS.values() for effect in claims for name in effect.shown]
    count = len(shown) + page.count(f"\n| {NAMES[DECISIVE]} | ")
    assert f"all\n  {count} differences" in page and count > len(shown)
    told = advice.table(recorded_of).splitlines()
    assert told[0].endswith("| Cars | Recommendation |") and len(told) == 2 + len(advice.CHANGES)


def test_visits_are_steps_times_classes_per_batch(recorded_of):
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in advice.visits(recorded_of).splitlines()[2:]]
    visits = [int(row[5]) for row in rows]
    # 800 steps of 16 classes visit each of 543 classes 24 times, and 1,600 steps of 8 each of 78 classes 164 times.
    assert visits == sorted(visits) and visits[0] == 24 and 164 in visits
    assert [row[6] for row in rows if row[0] == "Cars"] == ["0.0001", "0.0001"]


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

"""Pages of studies whose records are not complete yet can be written from any records, and say what these hold."""

import importlib
import json
import random
import re
from xml.etree import ElementTree

import pytest

from benchmarks import evidence
from benchmarks.pages import advice, effects, recorded
from benchmarks.pages.catalog import ALL, PAGES, PLANNED
from benchmarks.pages.papers import PAPERS
from benchmarks.pages.recorded import Recorded
from benchmarks.studies import rows
from tfdml.run.study.runs import resolved, runs_of
from tfdml.run.study.searches import trials_of

CLASSES, IMAGES = 98, 42


def study_of(page):
    return importlib.import_module(f"{rows.__name__}.{ALL[page].study}").STUDY


def record_of(flags, draw):
    """A record of a run that was not there: flags that there are, and numbers that are drawn."""
    (run,) = runs_of(flags, ["0"], "")
    right = [draw.randrange(IMAGES // 2) for _ in range(CLASSES)]
    value = {"recall_at_1": sum(right) / (CLASSES * IMAGES), "map_at_r": 0.1, "step": 1600}
    curve = [{"event": "evaluation", "step": step, "recall_at_1": draw.random()} for step in (0, 800, 1600)]
    alone = [{"recall_at_1": 0.2}] * 5
    return {
        "run": run.path.name,
        "flags": [*resolved(run.arguments).values()],
        "result": {
            "best": value,
            "metrics": value,
            "features": {"recall_at_1": 0.1},
            "baselines": {"linear": {"recall_at_1": 0.15}},
            "untrained": {"recall_at_1": 0.2},
            "validation": {"best": {"recall_at_1": draw.random()}},
            "seconds": 1,
        },
        "curve": curve,
        "measured": {
            "queries": [IMAGES] * CLASSES,
            "right": right,
            "learners": {"alone": alone, "first": alone, "correlation": 0.1},
        },
    }


def write_records(study, file):
    """Writes records of all that a study tries, and of every row with the best of it."""
    draw, records = random.Random(0), {}
    flags = {name: study.flags(name) for name in study.rows}
    searched = {name: row for name, row in flags.items() if name not in study.follow}
    tried = {name: [] for name in searched}
    for name, setting, trial in trials_of(searched, study.settings, study.searching):
        record = record_of(trial, draw)
        # Rows may have trials in common.
        record = records.setdefault(record["run"], record)
        tried[name].append((record["result"]["validation"]["best"]["recall_at_1"], setting))
    for name, row in flags.items():
        _, setting = max(tried[study.follow.get(name, name)], key=lambda each: each[0])
        record = record_of([*row, *setting], draw)
        records.setdefault(record["run"], record)
    with file.open("a") as lines:
        lines.writelines(f"{json.dumps(record)}\n" for record in records.values())


@pytest.fixture(scope="module")
def recorded_of(tmp_path_factory):
    """Gives the recorded study of a page: with records that were drawn where it is planned, else with docs/records."""
    root = tmp_path_factory.mktemp("root")
    (root / "docs/records").mkdir(parents=True)
    found = {}
    studies = {ALL[page].study: page for page in PLANNED}
    for page in studies.values():
        write_records(study_of(page), root / f"docs/records/{ALL[page].records}.jsonl")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorded, "ROOT", root)
        for page in PLANNED:
            found[page] = Recorded(ALL[page], root / "drawn")

    def give(page):
        if page not in found:
            found[page] = Recorded(ALL[page], root / "runs")
        return found[page]

    return give


@pytest.mark.parametrize("page", PLANNED)
def test_a_page_is_written_from_any_records(page, recorded_of):
    texts = evidence.written(page, recorded_of(page))
    text = texts.pop(f"{page}.md")
    names = recorded_of(page).rows
    assert names == list(ALL[page].rows or study_of(page).rows)
    assert "**One seed.**" in text and "95 % intervals, one seed." in text and "{" not in text
    assert all(f"| {name} |" in text for name in names)
    template, told = (evidence.TEMPLATES / f"{page}.md").read_text(), " ".join(text.split())
    assert len(re.findall("(?:better|worse) than", told)) == template.count("{compared: ") > 0
    assert told.count("seen: ") == template.count("{seen: ") > 0
    for name, drawing in texts.items():
        assert f"]({name})" in text and ElementTree.fromstring(drawing) is not None


def test_every_effect_has_its_rows_in_the_studies():
    shown = [(effect, pair) for several in PAPERS.values() for effect in several for pair in effect.shown.values()]
    shown += [(change, pair) for change in advice.CHANGES for pair in change.shown.values()]
    for each, (page, pair) in shown:
        names = pair.partition(" [")[0].split(" minus ")
        assert len(names) == 2 and set(names) <= study_of(page).rows.keys(), f"{each.text}: {page}"
    of_cars = [effect.shown.get("cars") for several in PAPERS.values() for effect in several]
    assert len(of_cars) >= 24 and all(of_cars)
    assert {page for page, _ in of_cars} == {page for page in ALL if page.startswith("cars_")}


def test_effects_and_advice_have_a_column_for_cars_once_there_are_records(recorded_of, monkeypatch):
    for page in PLANNED:
        monkeypatch.setitem(PAGES, page, ALL[page])
    texts = evidence.first_page(recorded_of)
    table = [line for line in texts["README.md"].splitlines() if line.startswith("| ") and "](cars" in line]
    count = sum(map(len, PAPERS.values()))
    assert len(table) >= count + len(PLANNED) and "cars, one seed |" in texts["README.md"]
    assert "half of the photos of Cars196" in " ".join(texts["README.md"].split())
    assert ">cars, one seed<" in texts["effects.svg"]
    told = advice.table(recorded_of).splitlines()
    assert told[0].endswith("| cars, one seed | so |") and told[2].endswith("| 41 |  |")


@pytest.mark.skipif(not PLANNED, reason="all pages have records")
def test_no_page_leads_to_one_that_is_planned(recorded_of):
    text = evidence.first_page(recorded_of)["README.md"]
    assert not any(f"]({page}.md)" in text for page in PLANNED) and "\n\n\n" not in text
    assert all(difference.keys() <= effects.sets().keys() for _, difference in effects.found_by(recorded_of)["EDMS"])


def test_advice_that_the_records_do_not_hold_is_an_error(recorded_of, monkeypatch):
    change = advice.CHANGES[0]._replace(claims={"emoji": "worse"})
    monkeypatch.setattr(advice, "CHANGES", [change])
    with pytest.raises(ValueError, match="expected an interval below 0 on emoji, the records have"):
        advice.table(recorded_of)


def test_the_table_of_the_docs_is_that_of_the_records(recorded_of):
    page = evidence.CHOOSING.read_text(encoding="utf-8")
    assert evidence.advice_page(recorded_of) == page, "run: python -m benchmarks.evidence"


def test_a_page_without_the_place_of_the_table_is_refused(recorded_of, monkeypatch, tmp_path):
    monkeypatch.setattr(evidence, "CHOOSING", tmp_path / "choosing.md")
    evidence.CHOOSING.write_text("# Choosing\n")
    with pytest.raises(ValueError, match="choosing.md: expected the lines <!--"):
        evidence.advice_page(recorded_of)

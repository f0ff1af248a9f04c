"""Tables of the pages about distillation and kept features are what the records say."""

import json
import re
import statistics

import pytest

from benchmarks import evidence
from benchmarks.pages.catalog import TASKS
from tests.commands import ROOT


def records(name):
    lines = (ROOT / "docs/records" / f"{TASKS[name].records}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def table(name):
    """Rows of the table of a page, each a list of cells."""
    page = (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")
    begin, end = evidence.BEGIN.format("results", "tasks"), evidence.END.format("results")
    lines = page.partition(begin)[2].partition(end)[0].strip().splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.mark.parametrize("name", TASKS)
def test_a_page_has_the_table_of_its_records(name, tmp_path):
    page = (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")
    assert evidence.task_page(name, tmp_path) == page, "run: python -m benchmarks.evidence"


def test_models_are_measured_on_other_sets():
    """The numbers of all weights at the rate 0.0003, computed from the records by hand."""
    (row,) = [row for row in table("pretrained_knowledge") if row[:2] == ["All weights", "0.0003"]]
    names = re.compile(r"[^/]*n_pair_scale=20.0_-optimizer=adam_learning_rate=0.0003_-seed[123]")
    runs = [each for each in records("pretrained_knowledge") if names.fullmatch(each["run"])]
    (initial,) = [row for row in table("pretrained_knowledge") if row[0] == "Nothing"]
    changes = []
    for name, cell, begun in zip(("Omniglot", "emoji", "cars"), row[2:5], initial[2:5], strict=True):
        found = [each["measured"]["elsewhere"][name] for each in runs]
        assert len(found) == 3
        score = 100 * statistics.mean(sum(each["right"]) / sum(each["queries"]) for each in found)
        assert cell.startswith(f"{score:.1f}%: ")
        assert float(cell.split()[1]) == pytest.approx(score - float(begun.rstrip("%")), abs=0.11)
        changes.append(score - float(begun.rstrip("%")))
    assert float(row[5]) == pytest.approx(statistics.mean(changes[1:]), abs=0.11)


def test_the_share_of_the_lead():
    rows = table("distillation")
    for of_set in {row[0] for row in rows}:
        scores = {row[1]: float(row[2].rstrip("%")) for row in rows if row[0] == of_set}
        (taught,) = [row for row in rows if row[0] == of_set and row[1].startswith("The student with")]
        lead = scores["The teacher"] - scores["The student alone"]
        gain = scores[taught[1]] - scores["The student alone"]
        assert float(taught[4].rstrip("%")) == pytest.approx(100 * gain / lead, abs=2)
        assert float(taught[3].split()[0]) == pytest.approx(gain, abs=0.11)

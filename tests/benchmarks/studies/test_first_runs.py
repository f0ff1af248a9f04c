"""The table of first runs."""

import json
import sys

import pytest

from benchmarks.studies import first_runs

RESULT = {
    "features": {"recall_at_1": 0.2},
    "untrained": {"recall_at_1": 0.25},
    "best": {"recall_at_1": 0.5, "step": 800, "blend": 0.75, "queries": 1234},
    "gain": {"difference": 0.3, "interval": [0.25, 0.35]},
}


def test_a_row_for_each_record(tmp_path, monkeypatch, capsys):
    untrained = {**RESULT, "best": {"recall_at_1": 0.25, "step": 0, "queries": 10}}
    records = tmp_path / "records.jsonl"
    lines = [{"run": "cars", "result": RESULT}, {"run": "mugs", "result": untrained}]
    records.write_text("".join(json.dumps(line) + "\n" for line in lines))
    monkeypatch.setattr(sys, "argv", ["first_runs", f"--records={records}", "--", "--seed=3"])
    first_runs.main()
    *_, cars, mugs = capsys.readouterr().out.splitlines()
    assert (
        cars == "| Cars | 1,234 | 20.0 | 25.0 | 50.0 | +30.0 (+25.0 to +35.0) | step 800, weight interpolation 0.75 |"
    )
    assert "| before training |" in mugs


@pytest.mark.parametrize("there", [True, False])
def test_what_is_missing_is_trained_as_a_first_run(tmp_path, monkeypatch, there):
    trained = []

    class Run:
        def __init__(self, path):
            self.path = path

        def result(self):
            return RESULT if there else None

    monkeypatch.setattr(first_runs, "RunDirectory", Run)
    monkeypatch.setattr(first_runs, "train", trained.append)
    monkeypatch.setattr(first_runs, "keep", lambda run_dir, records: None)
    given = ["cars=data/cars", f"--runs={tmp_path}", f"--records={tmp_path / 'none'}", "--", "--initial_weights=w.h5"]
    monkeypatch.setattr(sys, "argv", ["first_runs", *given])
    first_runs.main()
    expected = [["--data_dir=data/cars", "--initial_weights=w.h5", f"--run_dir={tmp_path / 'cars'}"]]
    assert trained == ([] if there else expected)


def test_the_table_of_the_docs_is_that_of_the_records(request, monkeypatch, capsys):
    root = request.config.rootpath
    monkeypatch.setattr(sys, "argv", ["first_runs", f"--records={root / 'docs/records/first_runs.jsonl'}"])
    first_runs.main()
    table = capsys.readouterr().out.strip()
    assert len(table.splitlines()) >= 7
    assert table in (root / "docs/evidence/fine_tuning.md").read_text(encoding="utf-8")

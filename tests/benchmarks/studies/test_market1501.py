"""The runs on Market-1501 are flags of training, and each row searches the same number of settings."""

import json

import pytest

from benchmarks.studies import market1501
from tfdml.console import flags
from tfdml.run.directory.run_directory import RunDirectory

ROWS = (market1501.SOFTMAX, market1501.RECOMMENDED)


@pytest.mark.parametrize("row", ROWS)
def test_runs_are_flags_of_training(row):
    resolved = [flags.resolve([*given, *market1501.ALWAYS]) for given, _, _ in market1501.trials(row).values()]
    assert len({tuple(each.values()) for each in resolved}) == 6
    # A search must not see the test images.
    assert all(each["dataset"].startswith("--dataset=training_classes(") for each in resolved)
    for form in market1501.FORMS[row].values():
        small, large = (flags.resolve(stage) for stage in market1501.stages(row, form, "1e-3", "first"))
        assert small["dataset"] == large["dataset"] == "--dataset=market1501" and small["seed"] == large["seed"]
        assert (small["image_size"], large["image_size"]) == ("--image_size=128x64", "--image_size=256x128")
        assert small["optimizer"] == "--optimizer=adam(learning_rate=1e-3)"
        assert large["optimizer"] == "--optimizer=adam(learning_rate=0.0005)"
        assert small["method"] == large["method"] and small["loss"] == large["loss"]
        # A run without proxies would refuse a rate of them.
        assert (small["lr_multipliers"] != "--lr_multipliers=") == market1501.has_proxies(form)
        # The new proxies of the second stage learn alone at first.
        assert large["warmup_epochs"] == f"--warmup_epochs={float('norm_softmax' in large['loss'])}"


def test_the_best_last_model_of_a_search_chooses(monkeypatch, tmp_path):
    runs = market1501.Runs(tmp_path, tmp_path / "records.jsonl", "data", "weights")
    best = "softmax-search2-1e-3"
    monkeypatch.setattr(runs, "trained", lambda name, given: {"metrics": {"map": 0.5 + 0.1 * (name == best)}})
    assert runs.chosen("softmax") == (list(market1501.FORMS["softmax"].values())[1], "1e-3")


def test_both_rows_are_compared_once(monkeypatch, tmp_path):
    records, shown = tmp_path / "records.jsonl", []
    runs = market1501.Runs(tmp_path / "runs", records, "data", "weights")
    compared = {"a": ["runs/softmax-small"], "metrics": {"map": {"difference": 0.1}}}
    monkeypatch.setattr(market1501, "ran", lambda *arguments: shown.append(arguments) or json.dumps(compared))
    runs.difference("small")
    assert not shown, "no row is complete"
    for row in ROWS:
        run_dir = tmp_path / f"runs/{row}-small"
        run_dir.mkdir(parents=True)
        RunDirectory(run_dir).write_result({})
    runs.difference("small")
    runs.difference("small")
    assert len(shown) == 1
    # Places of files are not recorded.
    result = {"runs": ["softmax-small", "recommended-small"], "metrics": compared["metrics"]}
    assert market1501.read(records)[market1501.difference_of("small")]["result"] == result

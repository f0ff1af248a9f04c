"""The study runs what is missing, and its table says what the results say."""

import json

import pytest

from benchmarks import runs, study
from tfdml.flags import resolve

CHANGES = ["--epochs=2"]


def write_result(run_dir, recall, serialized):
    run_dir.mkdir(parents=True)
    result = {"metrics": {"recall_at_1": recall}, "best": {"recall_at_1": recall + 0.1}, "seconds": 10.0}
    (run_dir / "result.json").write_text(json.dumps(result))
    (run_dir / "flags.txt").write_text("".join(f"{line}\n" for line in serialized.values()))


def test_only_missing_runs_are_made(tmp_path, monkeypatch):
    made = []
    plain = tmp_path / "plain.flags"
    plain.write_text("--loss=contrastive\n--run_dir=elsewhere\n")

    def flags_of(seed):
        return resolve([f"--flagfile={plain}", *CHANGES, f"--seed={seed}"])

    def train(arguments):
        made.append(arguments)
        write_result(tmp_path / "runs" / "plain-epochs=2-seed1", 0.4, flags_of(1))

    monkeypatch.setattr(runs, "train", train)
    write_result(tmp_path / "runs" / "plain-epochs=2-seed0", 0.2, flags_of(0))

    def results():
        return runs.results_of(str(plain), CHANGES, ["0", "1"], tmp_path / "runs")

    assert [result["metrics"]["recall_at_1"] for result in results()] == [0.2, 0.4]
    (arguments,) = made
    assert arguments[:3] == [f"--flagfile={plain}", "--epochs=2", "--seed=1"]
    results()
    assert len(made) == 1

    plain.write_text("--loss=triplet\n")
    with pytest.raises(ValueError, match="--loss=contrastive there, --loss=triplet now"):
        results()


def test_table_has_mean_and_standard_deviation():
    results = {
        "configs/plain.flags": [
            {"metrics": {"recall_at_1": recall}, "best": {"recall_at_1": recall + 0.1}, "seconds": 10 * recall}
            for recall in (0.2, 0.4)
        ]
    }
    lines = study.table(results, ["recall_at_1"]).splitlines()
    assert lines[0] == "| run | seeds | final R@1 | best R@1 | seconds |"
    assert lines[2] == "| plain | 2 | 30.0 ± 14.1 | 40.0 ± 14.1 | 3 |"


def test_failing_run_stops_the_study(tmp_path, capfd):
    bad = tmp_path / "bad.flags"
    bad.write_text("--loss=nonsense\n")
    with pytest.raises(SystemExit) as stopped:
        runs.results_of(str(bad), [], ["0"], tmp_path / "runs")
    assert stopped.value.code == 1
    assert "Unknown loss 'nonsense'" in capfd.readouterr().err

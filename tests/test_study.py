"""The study runs what is missing, and its table says what the results say."""

import json
import re

import pytest

from benchmarks import runs, study
from tests.commands import Command
from tests.run_helpers import train_flags
from tfdml.console.flags import resolve

CHANGES = ["--epochs=2"]


def write_result(run_dir, recall, serialized):
    run_dir.mkdir(parents=True)
    result = {"metrics": {"recall_at_1": recall}, "best": {"recall_at_1": recall + 0.1, "step": 20}, "seconds": 10.0}
    (run_dir / "result.json").write_text(json.dumps(result))
    (run_dir / "flags.txt").write_text("".join(f"{line}\n" for line in serialized.values()))


def test_only_missing_runs_are_made(tmp_path, monkeypatch, capfd):
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
        return study.results_of(study.plan([str(plain)], CHANGES, ["0", "1"], tmp_path / "runs"))[str(plain)]

    assert [result["metrics"]["recall_at_1"] for result in results()] == [0.2, 0.4]
    (arguments,) = made
    assert arguments[:3] == [f"--flagfile={plain}", "--epochs=2", "--seed=1"]
    results()
    assert len(made) == 1
    # One of two was there already.
    assert capfd.readouterr().err == f"Run 2 of 2: {tmp_path}/runs/plain-epochs=2-seed1\n"

    plain.write_text("--loss=triplet\n")
    with pytest.raises(ValueError, match="--loss=contrastive there, --loss=triplet now"):
        results()


def test_table_has_mean_and_standard_deviation():
    results = {
        "configs/plain.flags": [
            {
                "metrics": {"recall_at_1": recall},
                "best": {"recall_at_1": recall + 0.1, "step": 10 * recall},
                "seconds": 10 * recall,
            }
            for recall in (0.2, 0.4)
        ]
    }
    lines = study.table(results, ["recall_at_1"]).splitlines()
    assert lines[0] == "| run | seeds | final R@1 | best R@1 | steps to the best | seconds |"
    assert lines[2] == "| plain | 2 | 30.0 ± 14.1 | 40.0 ± 14.1 | 3 ± 1 | 3 |"


def validated(final, best, validation):
    result = {"metrics": {"recall_at_1": final}, "best": {"recall_at_1": best, "step": 20, "selected_on": "validation"}}
    return {**result, "validation": {"best": {"recall_at_1": validation}}, "seconds": 10.0, "learners": [final]}


def test_validation_chooses_not_the_test():
    """`b` is better on the test, and `a` on the classes held out."""
    results = {"configs/a.flags": [validated(0.3, 0.4, 0.6)], "configs/b.flags": [validated(0.5, 0.7, 0.5)]}
    lines = study.table(results, ["recall_at_1"]).splitlines()
    assert lines[0] == "| run | seeds | validation R@1 | final R@1 | best R@1 | steps to the best | seconds |"
    assert lines[2:] == ["| a | 1 | 60.0 | 30.0 | 40.0 | 20 | 10 |", "| b | 1 | 50.0 | 50.0 | 70.0 | 20 | 10 |"]
    assert study.chosen_by_validation(results, "recall_at_1") == "a"
    tested = {"metrics": {"recall_at_1": 0.3}, "best": {"recall_at_1": 0.4, "step": 20}, "seconds": 10.0}
    results["configs/c.flags"] = [tested]
    assert study.chosen_by_validation(results, "recall_at_1") is None
    assert study.table(results, ["recall_at_1"]).splitlines()[-1] == "| c | 1 | none | 30.0 | 40.0 | 20 | 10 |"


def test_a_seed_is_the_mean_of_its_folds(tmp_path, monkeypatch):
    flagfile = tmp_path / "folded.flags"
    flagfile.write_text("--folds=2\n--evaluate_on=validation\n")
    asked = []

    def complete(planned, measure):
        asked.extend(run.arguments[1:3] for run in planned)
        assert len({run.path for run in planned}) == 4
        return [validated(0.1 * number, 0.2 * number, 0.4 * number) for number in range(4)]

    monkeypatch.setattr(study, "complete", complete)
    (found,) = study.results_of(study.plan([str(flagfile)], [], ["0", "1"], tmp_path / "runs")).values()
    assert asked == [[f"--fold={fold}", f"--seed={seed}"] for fold in range(2) for seed in range(2)]
    # Folds 0 and 1 of seed 0 are the first and the third run.
    assert [one["metrics"]["recall_at_1"] for one in found] == pytest.approx([0.1, 0.2])
    assert [one["validation"]["best"]["recall_at_1"] for one in found] == pytest.approx([0.4, 0.8])
    assert study.folds_of(str(flagfile), ["--fold=1"]) == [[]]


def test_differences_to_the_first_flagfile(tmp_path, capsys):
    run_dirs = {row: [tmp_path / f"{row}{seed}" for seed in range(2)] for row in "ab"}
    for row, right in (("a", [2, 4]), ("b", [3, 5])):
        for run_dir in run_dirs[row]:
            run_dir.mkdir()
            (run_dir / "measured.json").write_text(json.dumps({"queries": [4, 6], "right": right}))
    study.print_differences(run_dirs)
    # One of four more, or one of six.
    assert capsys.readouterr().out == "\nb minus a, Recall@1: +20.0 (+16.7 to +25.0)\n"


@pytest.mark.slow
def test_failing_run_stops_the_study(tmp_path, capfd):
    bad = tmp_path / "bad.flags"
    bad.write_text("--loss=nonsense\n")
    with pytest.raises(SystemExit) as stopped:
        study.results_of(study.plan([str(bad)], [], ["0"], tmp_path / "runs"))
    assert stopped.value.code == 1
    assert "Unknown loss 'nonsense'" in capfd.readouterr().err


def test_metrics_that_a_flagfile_does_not_measure_are_told_before_it_is_trained(tmp_path):
    path = tmp_path / "some.flags"
    path.write_text("--metrics=recall_at_1,nmi\n")
    study.check_metrics(str(path), [], ["recall_at_1"])
    study.check_metrics(str(path), ["--metrics=recall_at_8"], ["recall_at_8"])
    with pytest.raises(ValueError, match="some.flags measures recall_at_1,nmi, and not recall_at_2"):
        study.check_metrics(str(path), [], ["recall_at_1", "recall_at_2"])
    with pytest.raises(ValueError, match="some.flags: Unknown command line flag 'epoch'"):
        study.check_metrics(str(path), ["--epoch=3"], ["recall_at_1"])


@pytest.mark.slow
def test_intervals_are_measured_on_the_models_by_the_command(tmp_path):
    flagfiles = [tmp_path / "a.flags", tmp_path / "b.flags"]
    for flagfile, rate in zip(flagfiles, ("1e-3", "1e-2"), strict=True):
        lengths = ["--epochs=1", "--steps_per_epoch=2", "--eval_every=1"]
        flags = [each for each in train_flags("", *lengths) if not each.startswith("--run_dir")]
        flagfile.write_text("\n".join([*flags, f"--optimizer=sgd(learning_rate={rate})"]))
    given = [*map(str, flagfiles), "--seeds=0", f"--runs={tmp_path / 'runs'}", "--intervals"]
    # Not in a fork, which has imported all that a command postpones.
    done = Command("benchmarks.study", *given).wait()
    assert done.returncode == 0, done.stderr
    assert re.search(r"b minus a, Recall@1: [+-][\d.]+ \([+-][\d.]+ to [+-][\d.]+\)", done.stdout)

"""The study of flagfiles runs what is missing, and its table says what the results say."""

import json
import logging

import pytest

from tfdml.console.flags import resolve
from tfdml.run.study import driver, runs
from tfdml.run.study.driver import of_flagfiles, run_study, tables_of
from tfdml.run.study.runs import folds_of, mean_of
from tfdml.run.study.study import Study, text_of
from tfdml.run.study.tables import MetricOf, as_markdown

METRICS = ["recall_at_1"]


def lines_of_study(study, *seeds_and_flags, intervals=False, **more):
    return as_markdown(tables_of(run_study(study, *seeds_and_flags, **more), intervals)).splitlines()


def write_result(run_dir, recall, serialized):
    run_dir.mkdir(parents=True)
    result = {"metrics": {"recall_at_1": recall}, "best": {"recall_at_1": recall + 0.1, "step": 20}, "seconds": 10.0}
    (run_dir / "result.json").write_text(json.dumps(result))
    (run_dir / "flags.txt").write_text("".join(f"{line}\n" for line in serialized.values()))


def test_only_missing_runs_are_made(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    made = []
    plain = tmp_path / "plain.flags"
    plain.write_text("--loss=contrastive\n--run_dir=elsewhere\n")

    def flags_of(seed):
        return resolve([f"--flagfile={plain}", "--epochs=2", f"--seed={seed}"])

    def train(arguments):
        made.append(arguments)
        write_result(tmp_path / "runs" / "plain-epochs=2-seed1", 0.4, flags_of(1))

    monkeypatch.setattr(runs, "train", train)
    write_result(tmp_path / "runs" / "plain-epochs=2-seed0", 0.2, flags_of(0))

    def run():
        study = of_flagfiles([str(plain)], ["--epochs=2"], METRICS)
        return lines_of_study(study, ["0", "1"], ["--epochs=2"], folder=str(tmp_path / "runs"))

    lines = run()
    (arguments,) = made
    assert arguments[:3] == [f"--flagfile={plain}", "--epochs=2", "--seed=1"]
    # One of two was there already.
    assert caplog.messages == [f"Run 2 of 2: {tmp_path}/runs/plain-epochs=2-seed1"]
    assert lines == [
        "| run | seeds | final R@1 | best R@1 | steps to the best | seconds |",
        "| --- | --- | --- | --- | --- | --- |",
        "| plain | 2 | 30.0 ± 14.1 | 40.0 ± 14.1 | 20 ± 0 | 10 |",
    ]
    assert run() == lines and len(made) == 1

    plain.write_text("--loss=triplet\n")
    with pytest.raises(ValueError, match="--loss=contrastive there, --loss=triplet now"):
        run()


def validated(final, best, validation):
    result = {"metrics": {"recall_at_1": final}, "best": {"recall_at_1": best, "step": 20, "selected_on": "validation"}}
    return {**result, "validation": {"best": {"recall_at_1": validation}}, "seconds": 10.0, "learners": [final]}


def flagfiles_in(folder, **contents):
    paths = [folder / f"{name}.flags" for name in contents]
    for path, content in zip(paths, contents.values(), strict=True):
        path.write_text(content)
    return [str(path) for path in paths]


def lines_of(study, results):
    """The lines of the table below its heads."""
    return [
        [name, *(text_of(column(of_row, [])) for column in study.columns.values())] for name, of_row in results.items()
    ]


def test_validation_chooses_not_the_test(tmp_path):
    """`b` is better on the test, and `a` on the classes held out."""
    held_out = "--evaluate_on=validation"
    study = of_flagfiles(flagfiles_in(tmp_path, a=held_out, b=held_out, c=""), [], METRICS)
    heads = ["seeds", "validation R@1", "final R@1", "best R@1", "steps to the best", "seconds"]
    assert study.head == "run" and list(study.columns) == heads
    results = {"a": [validated(0.3, 0.4, 0.6)], "b": [validated(0.5, 0.7, 0.5)]}
    assert lines_of(study, results) == [
        ["a", "1", "60.0", "30.0", "40.0", "20", "10"],
        ["b", "1", "50.0", "50.0", "70.0", "20", "10"],
    ]
    assert study.conclusion(results) == "Chosen by R@1 on validation classes: a"
    tested = {"metrics": {"recall_at_1": 0.3}, "best": {"recall_at_1": 0.4, "step": 20}, "seconds": 10.0}
    results["c"] = [tested]
    assert study.conclusion(results) is None
    assert lines_of(study, results)[-1] == ["c", "1", "none", "30.0", "40.0", "20", "10"]


def test_a_seed_is_the_mean_of_its_folds(tmp_path, monkeypatch):
    (flagfile,) = flagfiles_in(tmp_path, folded="--folds=2\n--evaluate_on=validation\n")
    asked = []

    def complete(planned, records, measure):
        assert not records and measure is None and len({run.path for run in planned}) == 4
        asked.extend(run.arguments[1:3] for run in planned)
        return [validated(0.1 * number, 0.2 * number, 0.2 * number) for number in range(4)]

    monkeypatch.setattr(driver, "complete", complete)
    lines = lines_of_study(of_flagfiles([flagfile], [], METRICS), ["0", "1"], folder=str(tmp_path / "runs"))
    assert asked == [[f"--fold={fold}", f"--seed={seed}"] for fold in range(2) for seed in range(2)]
    # Folds 0 and 1 of seed 0 are the first and the third run: 10 and 20 are the means of two folds each.
    assert lines[2] == "| folded | 2 | 30.0 ± 14.1 | 15.0 ± 7.1 | 30.0 ± 14.1 | 20 ± 0 | 10 |"
    assert folds_of([f"--flagfile={flagfile}", "--fold=1"]) == [[]]


def test_folds_of_other_studies_are_not_joined(tmp_path, monkeypatch):
    (flagfile,) = flagfiles_in(tmp_path, folded="--folds=2\n")
    planned = []
    monkeypatch.setattr(driver, "complete", lambda runs, *_: planned.extend(runs) or [{}] * len(runs))
    lines_of_study(Study(flagfile=flagfile, rows={"one": []}, columns={}, folder=str(tmp_path / "runs")), ["0"])
    assert len(planned) == 1


def test_differences_to_the_first_flagfile(tmp_path, monkeypatch):
    right = {"a": [[2, 4] * 12, [3, 3] * 12], "b": [[3, 5] * 12, [4, 4] * 12]}
    for name, of_seeds in right.items():
        for seed, counts in enumerate(of_seeds):
            run_dir = tmp_path / "runs" / f"{name}-seed{seed}"
            run_dir.mkdir(parents=True)
            (run_dir / "measured.json").write_text(json.dumps({"queries": [4, 6] * 12, "right": counts}))
    results = [validated(0.1, 0.2, 0.3)] * 4
    monkeypatch.setattr(driver, "complete", lambda *_: results)
    study = of_flagfiles(flagfiles_in(tmp_path, a="", b=""), [], METRICS)
    lines = lines_of_study(study, ["0", "1"], folder=str(tmp_path / "runs"), intervals=True)
    heads, _, first, second, *_ = lines
    assert heads.endswith("| seconds | difference from a |") and first.endswith("| 10 |  |")
    # One of four more, or one of six.
    assert second.endswith("| +20.0 (+18.3 to +21.7) |")


def test_metrics_that_a_flagfile_does_not_measure_are_told_before_it_is_trained(tmp_path):
    flagfiles = flagfiles_in(tmp_path, some="--metrics=recall_at_1,nmi\n")
    of_flagfiles(flagfiles, [], ["recall_at_1"])
    of_flagfiles(flagfiles, ["--metrics=recall_at_8"], ["recall_at_8"])
    with pytest.raises(ValueError, match="some.flags measures recall_at_1,nmi, and not recall_at_2"):
        of_flagfiles(flagfiles, [], ["recall_at_1", "recall_at_2"])
    with pytest.raises(ValueError, match="some.flags: Unknown command line flag 'epoch'"):
        of_flagfiles(flagfiles, ["--epoch=3"], ["recall_at_1"])


def test_flagfiles_with_the_same_name_would_share_runs(tmp_path):
    paths = [tmp_path / "a.flags", tmp_path / "other" / "a.flags"]
    paths[1].parent.mkdir()
    for path in paths:
        path.touch()
    with pytest.raises(ValueError, match="Expected flagfiles with different names, received .*other/a.flags"):
        of_flagfiles([str(path) for path in paths], [], METRICS)


def of_beginnings(features, untrained, best):
    scores = {"features": {"recall_at_1": features}, "untrained": {"recall_at_1": untrained}}
    return {**scores, "metrics": {"recall_at_1": best}, "best": {"recall_at_1": best, "step": 20}, "seconds": 10.0}


def test_what_runs_began_with_are_rows_once_for_all_that_have_it_in_common(tmp_path):
    flagfiles = [tmp_path / f"{name}.flags" for name in "abc"]
    for flagfile in flagfiles:
        flagfile.write_text("--loss=contrastive\n")
    study = of_flagfiles([str(flagfile) for flagfile in flagfiles], [], METRICS)
    results = {
        "a": [of_beginnings(0.2, 0.1, 0.5), of_beginnings(0.2, 0.3, 0.6)],
        "b": [of_beginnings(0.2, 0.1, 0.7), of_beginnings(0.2, 0.3, 0.8)],
        "c": [of_beginnings(0.2, 0.4, 0.9), of_beginnings(0.2, 0.4, 0.9)],
    }
    outcome = driver.Outcome(study, results, dict.fromkeys("abc", ()), None)
    rows = tables_of(outcome)[0].rows
    assert [[text_of(cell) for cell in row[:4]] for row in rows] == [
        ["features", "", "20.0 ± 0.0", "20.0 ± 0.0"],
        ["untrained of a and 1 more", "", "20.0 ± 14.1", "20.0 ± 14.1"],
        ["untrained of c", "", "40.0 ± 0.0", "40.0 ± 0.0"],
        ["a", "2", "55.0 ± 7.1", "55.0 ± 7.1"],
        ["b", "2", "75.0 ± 7.1", "75.0 ± 7.1"],
        ["c", "2", "90.0 ± 0.0", "90.0 ± 0.0"],
    ]
    del results["b"][1]["features"]
    assert [row[0] for row in tables_of(driver.Outcome(study, results, dict.fromkeys("abc", ()), None))[0].rows][
        :2
    ] == ["features of a and 1 more", "untrained of a and 1 more"]


def test_folds_of_which_one_has_no_value_or_no_blend_have_a_mean():
    folds = [
        {"best": {"map": 0.2, "blend": 0.5, "far": 0.1}},
        {"best": {"map": 0.4, "far": None, "selected_on": "test"}},
    ]
    assert mean_of(folds) == {"best": {"map": pytest.approx(0.3), "far": None}}


def test_a_metric_without_a_value_is_an_empty_cell_and_one_that_was_not_measured_is_told():
    results = [{"best": {"recall_at_1": 0.5, "far": None, "queries": 4}}]
    assert MetricOf("best", "far")(results, []) == ""
    with pytest.raises(ValueError, match="that the runs have measured, recall_at_1; received recal"):
        MetricOf("best", "recal")(results, [])
    # That was not asked for, as by the default of --metrics.
    assert MetricOf("best", "recal", required=False)(results, []) == ""


def test_metrics_of_the_default_need_not_be_measured(tmp_path):
    flagfiles = flagfiles_in(tmp_path, some="--metrics=recall_at_1,nmi\n")
    table = of_flagfiles(flagfiles, [], ["recall_at_1", "recall_at_2"], required=False).columns
    result = {"metrics": {"recall_at_1": 0.3}, "best": {"recall_at_1": 0.5}}
    assert table["best R@2"]([result], []) == "" and str(table["best R@1"]([result], []))

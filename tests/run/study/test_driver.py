"""Studies of flagfiles and of rows that change one: what is run, what validation chooses, tables and curves."""

import json
import logging
import os
import signal
import subprocess
import threading
import time

import pytest

from tfdml.console.flags import resolve
from tfdml.console.startup import TrainingStopped
from tfdml.run.study import driver, runs, tables
from tfdml.run.study.driver import of_flagfiles, run_study, tables_of
from tfdml.run.study.runs import folds_of, mean_of
from tfdml.run.study.study import Study, text_of
from tfdml.run.study.tables import MetricOf, as_markdown
from tfdml.run.training import training_process


def best(results, run_dirs):
    assert all(run_dir.is_dir() for run_dir in run_dirs)
    return tables.MetricOf("best")(results, run_dirs)


def printed(study, *seeds_and_more, intervals=False, pairwise=False, **more):
    """The lines of each table that the command prints."""
    outcome = run_study(study, *seeds_and_more, measured=intervals or pairwise, **more)
    return [part.splitlines() for part in as_markdown(tables_of(outcome, intervals, pairwise)).split("\n\n")]


def study_of(flagfile, rows, folder, **more):
    return Study(flagfile=str(flagfile), rows=rows, columns={"Recall@1": best}, folder=str(folder), **more)


@pytest.fixture
def flagfile(tmp_path):
    path = tmp_path / "plain.flags"
    path.write_text("--evaluate_on=validation\n")
    return path


@pytest.fixture
def trained(monkeypatch):
    """The flags of the runs that were trained; their results are made up from the margin and the seed."""
    made = []

    def train(arguments):
        flags = resolve(arguments)
        made.append(arguments)
        margin = float(flags["loss"].partition("margin=")[2].rstrip(")"))
        run_dir = runs.RunDirectory(arguments[-1].partition("=")[2])
        run_dir.path.mkdir(parents=True)
        value = margin + float(flags["seed"].partition("=")[2]) / 10
        result = {
            "best": {"recall_at_1": value, "step": 20},
            # A setting that is better on the test than on validation.
            "validation": {"best": {"recall_at_1": 0.9 - margin}, "metrics": {"recall_at_1": margin}},
        }
        run_dir.metrics.write_text(
            "".join(json.dumps({"step": step, "recall_at_1": value}) + "\n" for step in (10, 20))
        )
        (run_dir.path / "result.json").write_text(json.dumps(result))
        (run_dir.path / "flags.txt").write_text("".join(f"{line}\n" for line in flags.values()))

    monkeypatch.setattr(runs, "train", train)
    return made


SETTINGS = {
    "triplet": [["--loss=triplet(margin=0.1)"], ["--loss=triplet(margin=0.3)"]],
    "margin": [["--loss=margin(margin=0.4)"], ["--loss=margin(margin=0.2)"]],
}


def test_validation_chooses_and_the_chosen_runs_are_used_again(flagfile, trained, tmp_path):
    rows = {"triplet": [], "margin": ["--embedding_size=8"]}
    study = study_of(flagfile, rows, tmp_path / "runs", settings=SETTINGS)
    first, caption, second = printed(study, ["0", "1"], ["--epochs=2"])
    assert first[2:] == ["| triplet | 15.0 ± 7.1 |", "| margin | 25.0 ± 7.1 |"]
    assert caption == ["For each of these rows, validation chose among 2 settings with seed 0:"]
    assert second[2:] == [
        "| triplet | `--loss=triplet(margin=0.1)` | 80.0 | yes |",
        "| triplet | `--loss=triplet(margin=0.3)` | 60.0 |  |",
        "| margin | `--loss=margin(margin=0.4)` | 50.0 |  |",
        "| margin | `--loss=margin(margin=0.2)` | 70.0 | yes |",
    ]
    # Four to choose, and one more seed for each row.
    assert len(trained) == 6 and all("--epochs=2" in arguments for arguments in trained)
    assert ["--embedding_size=8" in arguments for arguments in trained] == [False, False, True, True, False, True]


def test_flags_of_the_search_alone(flagfile, trained, tmp_path):
    searching = ["--members=0", "--evaluate_on=validation"]
    members = {"triplet": 5, "margin": 5, "ten": 10}
    rows = {name: [f"--flagfile={flagfile}", f"--members={count}"] for name, count in members.items()}
    settings = {**SETTINGS, "ten": SETTINGS["margin"]}
    found = driver.search(rows, settings, tmp_path / "runs", searching)
    assert "validation chose among 2 settings with seed 0 and `--members=0` `--eval" in found.budget()
    # Rows that differ in their members alone are searched once.
    assert len(trained) == 4 and all(searching[0] in arguments for arguments in trained)
    assert found.setting("margin") == found.setting("ten") == ["--loss=margin(margin=0.2)"]


def test_a_row_has_the_setting_of_another(flagfile, trained, tmp_path):
    rows, more = {"triplet": [], "longer": ["--steps=80"]}, {"settings": SETTINGS, "follow": {"longer": "triplet"}}
    table, *_ = printed(study_of(flagfile, rows, tmp_path / "runs", **more), ["0", "1"], only=["longer"])
    assert [("--steps=80" in arguments, arguments[-3]) for arguments in trained] == [
        (False, "--loss=triplet(margin=0.1)"),
        (False, "--loss=triplet(margin=0.3)"),
        (True, "--loss=triplet(margin=0.1)"),
        (True, "--loss=triplet(margin=0.1)"),
    ]
    assert table[-1] == "| longer | 15.0 ± 7.1 |"


def test_a_flag_that_a_row_has_is_not_for_all(flagfile, tmp_path):
    with pytest.raises(ValueError, match="The row 'longer' already sets --steps=80. Remove the flag, or select"):
        run_study(study_of(flagfile, {"short": [], "longer": ["--steps=80"]}, tmp_path), ["0"], ["--steps=5"])
    settings = {"short": [["--steps=40"], ["--steps=80"]]}
    with pytest.raises(ValueError, match="The row 'short' already sets --steps=40. Remove the flag, or select"):
        run_study(study_of(flagfile, {"short": []}, tmp_path, settings=settings), ["0"], ["--steps=5"])


def test_a_switch_that_a_row_has_is_not_turned_off_for_all(flagfile, tmp_path):
    for row, flag in (("--blend", "--noblend"), ("--noblend", "--blend=true")):
        with pytest.raises(ValueError, match=f"The row 'blend' already sets {row}. Remove the flag"):
            run_study(study_of(flagfile, {"blend": [row]}, tmp_path), ["0"], [flag])


def test_rows_that_would_share_a_run_are_refused(flagfile, trained, tmp_path):
    rows = {"birds": ["--data_dir=/x/birds"], "cars": ["--data_dir=/y/cars"]}
    with pytest.raises(ValueError, match="plain-seed0, because --data_dir, --initial_weights .*/x/birds and .*/y/cars"):
        run_study(study_of(flagfile, rows, tmp_path), ["0"])
    assert not trained


def test_a_row_and_a_flag_that_there_are_not_are_told_at_once(flagfile, tmp_path):
    study = study_of(flagfile, {"short": [], "longer": ["--steps=80"]}, tmp_path)
    with pytest.raises(ValueError, match="has no row 'long'. Its rows are: short; longer."):
        run_study(study, ["0"], only=["long"])
    with pytest.raises(ValueError, match="plain.flags: Unknown command line flag 'epoch'"):
        run_study(study, ["0"], ["--epoch=3"])


def test_final_models_choose_where_final_models_are_compared(flagfile, trained, tmp_path):
    found = driver.search({"triplet": [f"--flagfile={flagfile}"]}, SETTINGS, tmp_path, which="final")
    assert found.setting("triplet") == ["--loss=triplet(margin=0.3)"]


def test_each_row_has_the_same_budget(flagfile, tmp_path):
    settings = {**SETTINGS, "margin": SETTINGS["margin"][:1]}
    with pytest.raises(ValueError, match="same number of settings. Received: {'triplet': 2, 'margin': 1}"):
        driver.search(dict.fromkeys(SETTINGS, [f"--flagfile={flagfile}"]), settings, tmp_path)


def test_nothing_is_chosen_on_the_test(flagfile, tmp_path):
    rows = {"triplet": [f"--flagfile={flagfile}", "--evaluate_on=test"]}
    with pytest.raises(ValueError, match="'triplet' needs --evaluate_on=validation"):
        driver.search(rows, SETTINGS, tmp_path)


def test_differences_between_rows(flagfile, trained, monkeypatch, tmp_path):
    """Of the second row one more of the first class' four queries is right with seed 0, and none of the others'."""
    asked = []

    def measure(run_dir, which, learners, elsewhere):
        asked.append((which, learners))
        more = int("margin-0.4" in str(run_dir) or "margin=0.4" in str(run_dir)) * int(str(run_dir).endswith("seed0"))
        found = {"queries": [4, 6, 10], "right": [1 + more, 3, 5]}
        (run_dir / "measured.json").write_text(json.dumps(found))

    monkeypatch.setattr(driver, "measure", measure)
    rows = {name: each[0] for name, each in SETTINGS.items()}
    more = {"which": "final", "learners": 3, "differences": [("triplet", "margin"), ("margin", "not there")]}
    lines, differences = printed(study_of(flagfile, rows, tmp_path / "runs", **more), ["0", "1"], intervals=True)
    assert asked == [("final", 3)] * 4
    assert lines[0] == "| row | Recall@1 | difference from triplet |"
    # Half a query of 20, of one seed of two: as likely none.
    difference = lines[3].split("|")[3].strip()
    assert difference.startswith("+2.5 (-") and lines[2].endswith("|  |")
    assert differences[2:] == [f"| margin minus triplet | {difference} |"]


def test_rows_that_differ_significantly(flagfile, trained, monkeypatch, tmp_path):
    right = {"0.1": [1, 4, 8] * 8, "0.3": [2, 5, 9] * 8, "0.2": [1, 5, 8] + [1, 4, 8] * 7}

    def measure(run_dir, which, learners, elsewhere):
        (counts,) = [found for margin, found in right.items() if margin in str(run_dir)]
        (run_dir / "measured.json").write_text(json.dumps({"queries": [4, 6, 10] * 8, "right": counts}))

    monkeypatch.setattr(driver, "measure", measure)
    rows = {margin: [f"--loss=triplet(margin={margin})"] for margin in right}
    _, better, caption, pairs = printed(study_of(flagfile, rows, tmp_path / "runs"), ["0"], pairwise=True)
    # 0.3 is better in each class, 0.2 in one of 24, which a resample may not have.
    assert better[2:] == ["| 0.3 | 0.2; 0.1 |", "| 0.2 | none |", "| 0.1 | none |"]
    assert "simultaneous 95% confidence intervals" in caption[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in pairs[2:]]
    assert [row[:2] for row in rows] == [["0.2", "0.3"], ["0.1", "0.3"], ["0.1", "0.2"]]
    # The second minus the first, as in tfdml.compare: of 160 queries 23, 24 and one more.
    assert "second minus first" in pairs[0]
    assert [row[2].split()[0] for row in rows] == ["+14.4", "+15.0", "+0.6"]
    assert [float(row[3]) < 0.05 for row in rows] == [True, True, False]


@pytest.mark.parametrize("steps", [range(0, 81, 8), range(0, 81, 20), (0, 80)])
def test_what_a_run_gained_in_the_last_quarter(steps):
    """Of a straight line a quarter, wherever it was evaluated."""
    assert tables.gain_of({step: step / 80 for step in steps}) == pytest.approx(0.25)


@pytest.mark.parametrize(
    "number, prepare, script, status",
    [(signal.SIGTERM, "trap 'exit 75' TERM", "sleep 9 & wait", 75), (0, "", "exit 3", 3)],
)
def test_a_study_that_is_stopped_stops_its_run(tmp_path, monkeypatch, number, prepare, script, status):
    """The run would go on without it, and hold its folder."""
    program, pid = tmp_path / "python", os.getpid()
    program.write_text(f"#!/bin/bash\n{prepare}\ntouch {tmp_path}/begun\n{script}\ntouch {tmp_path}/went_on\n")
    program.chmod(0o755)
    monkeypatch.setattr(training_process.sys, "executable", str(program))

    def stop():
        while not (tmp_path / "begun").exists():
            time.sleep(0.01)
        os.kill(pid, number)

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(TrainingStopped if status == 75 else subprocess.CalledProcessError) as ended:
        runs.train(["--seed=0"])
    # It would wait forever for a file in a folder that is removed after the test.
    thread.join()
    assert status == 75 or ended.value.returncode == status
    assert not (tmp_path / "went_on").exists()


METRICS = ["recall_at_1"]


def lines_of_study(study, *seeds_and_flags, intervals=False, **more):
    return as_markdown(tables_of(run_study(study, *seeds_and_flags, **more), intervals)).splitlines()


def write_result(run_dir, recall, serialized):
    run_dir.mkdir(parents=True)
    result = {"metrics": {"recall_at_1": recall}, "best": {"recall_at_1": recall + 0.1, "step": 20}, "seconds": 10.0}
    (run_dir / "result.json").write_text(json.dumps(result))
    (run_dir / "flags.txt").write_text("".join(f"{line}\n" for line in serialized.values()))


def test_only_missing_runs_are_made(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger="tfdml")
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
    with pytest.raises(ValueError, match="--loss=contrastive before, --loss=triplet now"):
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


def test_metrics_that_a_flagfile_does_not_measure_are_told_before_it_is_trained(tmp_path):
    flagfiles = flagfiles_in(tmp_path, some="--metrics=recall_at_1,nmi\n")
    of_flagfiles(flagfiles, [], ["recall_at_1"])
    of_flagfiles(flagfiles, ["--metrics=recall_at_8"], ["recall_at_8"])
    with pytest.raises(ValueError, match="some.flags measures recall_at_1,nmi, but not recall_at_2"):
        of_flagfiles(flagfiles, [], ["recall_at_1", "recall_at_2"])
    with pytest.raises(ValueError, match="some.flags: Unknown command line flag 'epoch'"):
        of_flagfiles(flagfiles, ["--epoch=3"], ["recall_at_1"])


def test_a_metric_that_only_ends_measure_does_not_choose_on_validation_classes(tmp_path):
    flagfiles = flagfiles_in(tmp_path, some="--evaluate_on=validation\n")
    of_flagfiles(flagfiles, [], ["recall_at_1", "nmi"])
    of_flagfiles(flagfiles, ["--evaluate_on=test"], ["nmi"])
    with pytest.raises(ValueError, match="--metrics starts with nmi, which runs only measure at their end"):
        of_flagfiles(flagfiles, [], ["nmi", "recall_at_1"])


def test_flagfiles_with_the_same_name_would_share_runs(tmp_path):
    paths = [tmp_path / "a.flags", tmp_path / "other" / "a.flags"]
    paths[1].parent.mkdir()
    for path in paths:
        path.touch()
    with pytest.raises(ValueError, match="Flagfiles must have different names. Received: .*other/a.flags"):
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
        ["pretrained features", "", "20.0 ± 0.0", "20.0 ± 0.0"],
        ["before training of a and 1 more", "", "20.0 ± 14.1", "20.0 ± 14.1"],
        ["before training of c", "", "40.0 ± 0.0", "40.0 ± 0.0"],
        ["a", "2", "55.0 ± 7.1", "55.0 ± 7.1"],
        ["b", "2", "75.0 ± 7.1", "75.0 ± 7.1"],
        ["c", "2", "90.0 ± 0.0", "90.0 ± 0.0"],
    ]
    del results["b"][1]["features"]
    assert [row[0] for row in tables_of(driver.Outcome(study, results, dict.fromkeys("abc", ()), None))[0].rows][
        :2
    ] == ["pretrained features of a and 1 more", "before training of a and 1 more"]


def test_folds_of_which_one_has_no_value_or_no_blend_have_a_mean():
    folds = [
        {"best": {"map": 0.2, "blend": 0.5, "far": 0.1}},
        {"best": {"map": 0.4, "far": None, "selected_on": "test"}},
    ]
    assert mean_of(folds) == {"best": {"map": pytest.approx(0.3), "far": None}}


def test_a_metric_without_a_value_is_an_empty_cell_and_one_that_was_not_measured_is_told():
    results = [{"best": {"recall_at_1": 0.5, "far": None, "queries": 4}}]
    assert MetricOf("best", "far")(results, []) == ""
    with pytest.raises(ValueError, match="not measured the metric recal.* Use one of: recall_at_1"):
        MetricOf("best", "recal")(results, [])
    # That was not asked for, as by the default of --metrics.
    assert MetricOf("best", "recal", required=False)(results, []) == ""


def test_metrics_of_the_default_need_not_be_measured(tmp_path):
    flagfiles = flagfiles_in(tmp_path, some="--metrics=recall_at_1,nmi\n")
    table = of_flagfiles(flagfiles, [], ["recall_at_1", "recall_at_2"], required=False).columns
    result = {"metrics": {"recall_at_1": 0.3}, "best": {"recall_at_1": 0.5}}
    assert table["best R@2"]([result], []) == "" and str(table["best R@1"]([result], []))

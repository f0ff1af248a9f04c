"""Studies whose rows change a flagfile: what validation chooses, tables and curves."""

import json
import os
import signal
import subprocess
import threading
import time

import pytest

from tfdml.console.flags import resolve
from tfdml.console.startup import TrainingStopped
from tfdml.run.study import driver, runs, tables
from tfdml.run.study import driver as driver_module
from tfdml.run.study.driver import run_study, tables_of
from tfdml.run.study.study import Study
from tfdml.run.study.tables import as_markdown
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
    assert caption == ["Validation chose among 2 settings of each of these rows, with seed 0:"]
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
    found = driver_module.search(rows, settings, tmp_path / "runs", searching)
    assert "2 settings of each of these rows, with seed 0, and with `--members=0` `--eval" in found.budget()
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
    with pytest.raises(ValueError, match="The row 'longer' has --steps=80. Leave out the flag, or the row"):
        run_study(study_of(flagfile, {"short": [], "longer": ["--steps=80"]}, tmp_path), ["0"], ["--steps=5"])
    settings = {"short": [["--steps=40"], ["--steps=80"]]}
    with pytest.raises(ValueError, match="The row 'short' has --steps=40. Leave out the flag, or the row"):
        run_study(study_of(flagfile, {"short": []}, tmp_path, settings=settings), ["0"], ["--steps=5"])


def test_a_row_and_a_flag_that_there_are_not_are_told_at_once(flagfile, tmp_path):
    study = study_of(flagfile, {"short": [], "longer": ["--steps=80"]}, tmp_path)
    with pytest.raises(ValueError, match="There is no row 'long'. Rows are: short; longer."):
        run_study(study, ["0"], only=["long"])
    with pytest.raises(ValueError, match="plain.flags: Unknown command line flag 'epoch'"):
        run_study(study, ["0"], ["--epoch=3"])


def test_final_models_choose_where_final_models_are_compared(flagfile, trained, tmp_path):
    found = driver_module.search({"triplet": [f"--flagfile={flagfile}"]}, SETTINGS, tmp_path, which="final")
    assert found.setting("triplet") == ["--loss=triplet(margin=0.3)"]


def test_each_row_has_the_same_budget(flagfile, tmp_path):
    settings = {**SETTINGS, "margin": SETTINGS["margin"][:1]}
    with pytest.raises(ValueError, match="as many settings for each row, received {'triplet': 2, 'margin': 1}"):
        driver_module.search(dict.fromkeys(SETTINGS, [f"--flagfile={flagfile}"]), settings, tmp_path)


def test_nothing_is_chosen_on_the_test(flagfile, tmp_path):
    rows = {"triplet": [f"--flagfile={flagfile}", "--evaluate_on=test"]}
    with pytest.raises(ValueError, match="'triplet' needs --evaluate_on=validation"):
        driver_module.search(rows, SETTINGS, tmp_path)


def test_differences_between_rows(flagfile, trained, monkeypatch, tmp_path):
    """Of the second row one more of the first class' four queries is right with seed 0, and none of the others'."""
    asked = []

    def measure(run_dir, which, learners):
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

    def measure(run_dir, which, learners):
        (counts,) = [found for margin, found in right.items() if margin in str(run_dir)]
        (run_dir / "measured.json").write_text(json.dumps({"queries": [4, 6, 10] * 8, "right": counts}))

    monkeypatch.setattr(driver, "measure", measure)
    rows = {margin: [f"--loss=triplet(margin={margin})"] for margin in right}
    _, better, caption, pairs = printed(study_of(flagfile, rows, tmp_path / "runs"), ["0"], pairwise=True)
    # 0.3 is better in each class, 0.2 in one of 24, which a resample may not have.
    assert better[2:] == ["| 0.3 | 0.2; 0.1 |", "| 0.2 | none |", "| 0.1 | none |"]
    assert "for all pairs together" in caption[0]
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

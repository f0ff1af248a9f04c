"""Results of a study that are kept in a file."""

import json

import pytest

from tfdml.console.flags import resolve
from tfdml.run.study import records, runs, tables
from tfdml.run.study.driver import run_study, tables_of
from tfdml.run.study.records import measured
from tfdml.run.study.study import Study
from tfdml.run.study.tables import as_markdown


@pytest.fixture
def trained(monkeypatch):
    """The run directories that were trained; each has a made-up result."""
    made = []

    def train(arguments):
        flags = resolve(arguments)
        run = runs.RunDirectory(arguments[-1].partition("=")[2])
        run.claim(flags)
        lines = [
            {"event": "train", "loss": 1.0, "step": 10},
            {"event": "pairs", "active_anchors": 1.0, "step": 5},
            {"event": "pairs", "active_anchors": 0.5, "step": 10},
            {"event": "evaluation", "recall_at_1": 0.25, "step": 10},
        ]
        run.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
        run.write_result({"metrics": {"recall_at_1": 0.123456789}})
        (run.path / "measured.json").write_text('{"model": "best", "right": [3]}')
        made.append(run.path.name)

    monkeypatch.setattr(runs, "train", train)
    return made


def study(tmp_path, folder, *flags, seeds="0", only=()):
    flagfile = tmp_path / "plain.flags"
    flagfile.touch()
    columns = {
        "Recall@1": lambda results, _: " ".join(str(result["metrics"]["recall_at_1"]) for result in results),
        "curve": lambda _, run_dirs: str(runs.curve(run_dirs[0])),
    }
    rows = {"plain": [], "long": ["--epochs=7"]}
    made = Study(flagfile=str(flagfile), rows=rows, columns=columns, folder=str(tmp_path / folder))
    outcome = run_study(made, list(seeds), flags, only, records=str(tmp_path / "kept" / "study.jsonl"))
    return as_markdown(tables_of(outcome)).splitlines()


def test_a_study_goes_on_from_its_records(trained, tmp_path):
    study(tmp_path, "first", only=["long"])
    assert trained == ["plain-epochs=7-seed0"]
    # Another folder, as on another machine.
    *_, last = study(tmp_path, "second", seeds="01")
    assert trained[1:] == ["plain-seed0", "plain-seed1", "plain-epochs=7-seed1"]
    assert last == "| long | 0.123457 0.123456789 | {10: 0.25} |"
    kept = [json.loads(line) for line in (tmp_path / "kept" / "study.jsonl").read_text().splitlines()]
    assert [record["run"] for record in kept] == trained
    assert all([event["event"] for event in record["curve"]] == ["evaluation", "pairs"] for record in kept)
    assert kept[0]["curve"][1] == {"event": "pairs", "active_anchors": 0.5, "step": 10}
    study(tmp_path, "second", seeds="01")
    assert len(trained) == 4
    assert measured(tmp_path / "second" / "plain-epochs=7-seed0") == {"model": "best", "right": [3]}
    assert "measured" in kept[0]


def test_what_an_older_record_lacks_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match="to train the run again"):
        measured(tmp_path)


def test_records_of_other_flags_are_refused(trained, tmp_path):
    study(tmp_path, "first")
    file = tmp_path / "kept" / "study.jsonl"
    file.write_text(file.read_text().replace("--epochs=7", "--epochs=8"))
    with pytest.raises(ValueError, match="--epochs=8 before, --epochs=7 now"):
        study(tmp_path, "second")


def test_runs_that_are_there_stay(trained, tmp_path):
    study(tmp_path, "first", only=["plain"])
    runs.RunDirectory(tmp_path / "first" / "plain-seed0").write_result({"metrics": {"recall_at_1": 0.5}})
    assert study(tmp_path, "first", only=["plain"])[-1].startswith("| plain | 0.5 |")


def test_files_may_lie_elsewhere_on_another_machine(trained, tmp_path):
    study(tmp_path, "first", f"--data_dir={tmp_path / 'here' / 'cars'}", only=["plain"])
    study(tmp_path, "second", f"--data_dir={tmp_path / 'there' / 'cars'}", only=["plain"])
    assert trained == ["plain-seed0"]
    flags = (tmp_path / "second" / "plain-seed0" / "flags.txt").read_text().splitlines()
    assert f"--data_dir={tmp_path / 'there' / 'cars'}" in flags
    assert str(tmp_path) not in (tmp_path / "kept" / "study.jsonl").read_text()


def test_a_teacher_may_lie_elsewhere_on_another_machine(trained, tmp_path, monkeypatch):
    for machine in ("here", "there"):
        (tmp_path / machine).mkdir()
        monkeypatch.chdir(tmp_path / machine)
        study(tmp_path, f"runs_{machine}", "--teacher=teachers/large", only=["plain"])
    name = "plain-teacher=teachers_large-seed0"
    assert trained == [name]
    flags = (tmp_path / "runs_there" / name / "flags.txt").read_text().splitlines()
    assert f"--teacher={tmp_path / 'there' / 'teachers' / 'large'}" in flags
    assert str(tmp_path) not in (tmp_path / "kept" / "study.jsonl").read_text()
    study(tmp_path, "runs_here", "--teacher=teachers/small", only=["plain"])
    assert trained == [name, "plain-teacher=teachers_small-seed0"]


def test_records_of_another_teacher_in_the_flagfile_are_refused(trained, tmp_path):
    flagfile = tmp_path / "plain.flags"
    flagfile.write_text("--teacher=teachers/large\n--cache_dir=a\n")
    study(tmp_path, "first", only=["plain"])
    flagfile.write_text("--teacher=other/large\n--cache_dir=b\n")
    study(tmp_path, "second", only=["plain"])
    assert trained == ["plain-seed0"]
    flagfile.write_text("--teacher=teachers/small\n--cache_dir=a\n")
    with pytest.raises(ValueError, match="--teacher=large. Received: --teacher=.*teachers/small. Use the same"):
        study(tmp_path, "third", only=["plain"])


def test_random_weights_are_not_those_of_a_file(trained, tmp_path):
    study(tmp_path, "first", "--initial_weights=imagenet", only=["plain"])
    study(tmp_path, "second", "--initial_weights=weights/imagenet.weights.h5", only=["plain"])
    with pytest.raises(ValueError, match="--initial_weights=imagenet. Received: --initial_weights=. Use the same"):
        study(tmp_path, "third", only=["plain"])


def test_other_images_and_weights_are_refused(trained, tmp_path):
    first = ["--data_dir=photos/birds", "--initial_weights=weights/a.weights.h5"]
    study(tmp_path, "first", *first, only=["plain"])
    for number, other in enumerate(("--data_dir=photos/cars", "--initial_weights=weights/b.weights.h5")):
        with pytest.raises(ValueError, match=f"Received: {other.split('=')[0]}=.*{other.split('/')[-1]}. Use the same"):
            study(tmp_path, str(number), *first, other, only=["plain"])


def test_a_run_that_is_trained_again_replaces_its_record(trained, tmp_path):
    study(tmp_path, "first", only=["plain"])
    run_dir = tmp_path / "first" / "plain-seed0"
    runs.RunDirectory(run_dir).write_result({"metrics": {"recall_at_1": 0.5}})
    (run_dir / "measured.json").unlink()
    records.keep(run_dir, tmp_path / "kept" / "study.jsonl")
    assert records.read(tmp_path / "kept" / "study.jsonl")["plain-seed0"]["result"]["metrics"]["recall_at_1"] == 0.5


def test_an_ensemble_that_was_stopped_goes_on(trained, tmp_path):
    """Before its members are joined its folder has no flags."""
    (tmp_path / "first" / "plain-seed0" / "member_000").mkdir(parents=True)
    study(tmp_path, "first", only=["plain"])
    assert trained == ["plain-seed0"]


def test_an_ensemble_without_some_of_its_members_is_not_complete(trained, tmp_path):
    study(tmp_path, "first", only=["plain"])
    run = runs.RunDirectory(tmp_path / "first" / "plain-seed0")
    result = {"metrics": {"recall_at_1": 0.5}, "asked": 2}
    for members in (["a"], ["a", "b"]):
        run.write_result({**result, "members": [{"run_dir": each} for each in members]})
        study(tmp_path, "first", only=["plain"])
    assert trained == ["plain-seed0"] * 2


def test_runs_of_other_images_are_not_taken(trained, tmp_path):
    study(tmp_path, "first", "--data_dir=photos/birds", only=["plain"])
    study(tmp_path, "first", "--data_dir=moved/birds", only=["plain"])
    with pytest.raises(ValueError, match="Received: --data_dir=.*/photos/cars. Use the same value, or .* --runs"):
        study(tmp_path, "first", "--data_dir=photos/cars", only=["plain"])
    (tmp_path / "plain.flags").write_text("--ignore_images=bad.txt")
    with pytest.raises(ValueError, match="Received: --ignore_images=.*bad.txt. Use the same value, or .* --runs"):
        study(tmp_path, "first", "--data_dir=photos/birds", only=["plain"])


def test_a_record_is_restored_whole_or_not_at_all(trained, tmp_path, monkeypatch):
    study(tmp_path, "first", only=["plain"])

    def stopped(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patches:
        patches.setattr(runs.RunDirectory, "write_result", stopped)
        with pytest.raises(KeyboardInterrupt):
            study(tmp_path, "second", only=["plain"])
    assert not (tmp_path / "second" / "plain-seed0").exists()
    study(tmp_path, "second", only=["plain"])
    assert trained == ["plain-seed0"] and [each.name for each in (tmp_path / "second").iterdir()] == ["plain-seed0"]


def test_a_record_that_was_cut_is_passed_over(trained, tmp_path, caplog):
    study(tmp_path, "first", only=["plain"])
    file = tmp_path / "kept" / "study.jsonl"
    whole = file.read_text()
    file.write_text(whole + whole[:50])
    study(tmp_path, "first", only=["long"])
    assert "study.jsonl, line 2 is not a record" in caplog.text
    assert records.read(file).keys() == {"plain-seed0", "plain-epochs=7-seed0"}


def test_measures_that_come_later_are_kept(trained, tmp_path):
    """The search of settings trains without measuring; the run is then one of a row."""
    file, run_dir = tmp_path / "study.jsonl", tmp_path / "plain-seed0"
    runs.train([f"--run_dir={run_dir}"])
    (run_dir / "measured.json").unlink()
    records.keep(run_dir, file)
    (run_dir / "measured.json").write_text('{"model": "best", "right": [3]}')
    records.keep(run_dir, file)
    assert records.read(file)["plain-seed0"]["measured"] == {"model": "best", "right": [3]}
    records.keep(run_dir, file)
    assert len(file.read_text().splitlines()) == 2
    # Another study of the same run measures its learners as well.
    (run_dir / "measured.json").write_text('{"model": "best", "right": [3], "learners": 0.123456789}')
    records.keep(run_dir, file)
    records.keep(run_dir, file)
    assert len(file.read_text().splitlines()) == 3
    assert records.read(file)["plain-seed0"]["measured"] == {"model": "best", "right": [3], "learners": 0.123457}


def test_members_are_recorded_without_the_folders_of_a_machine(tmp_path):
    run, file = runs.RunDirectory(tmp_path / "run"), tmp_path / "study.jsonl"
    run.claim(resolve(["--members=2"]))
    run.metrics.touch()
    run.write_result({"members": [{"run_dir": str(tmp_path / f"run/member_00{number}")} for number in (0, 1)]})
    for _ in range(2):
        records.keep(run.path, file)
    (kept,) = [json.loads(line) for line in file.read_text().splitlines()]
    assert kept["result"]["members"] == [{"run_dir": "member_000"}, {"run_dir": "member_001"}]


def test_members_are_recorded_with_their_learning_curves(tmp_path):
    run, file = runs.RunDirectory(tmp_path / "run"), tmp_path / "study.jsonl"
    run.claim(resolve(["--members=1"]))
    run.metrics.touch()
    run.write_result({"members": [{"run_dir": str(tmp_path / "run/member_000")}], "asked": 1})
    lines = [{"event": "evaluation", "step": step, "recall_at_1": step / 80} for step in (0, 40, 80)]
    (tmp_path / "run/member_000").mkdir()
    (tmp_path / "run/member_000/metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert tables.gained_late([run.result()], [run.path]).values == [pytest.approx(0.25)]
    records.keep(run.path, file)
    record = records.read(file)["run"]
    assert record["result"]["members"] == [{"run_dir": "member_000", "curve": lines}]
    assert tables.gained_late([record["result"]], [run.path]).values == [pytest.approx(0.25)]
    # On another machine, the ensemble is restored without its members.
    restored = tmp_path / "restored" / "run"
    records.restore(record, restored, resolve(["--members=1"]))
    records.keep(restored, file)
    assert len(file.read_text().splitlines()) == 1

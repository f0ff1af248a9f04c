"""Ensembles: the flags of their members, what becomes of those that fail, their folder, and which runs are joined."""

import json
import logging
import shutil

import numpy as np
import pytest

from tests.run_helpers import parsed, straight_run
from tfdml.console.startup import TrainingStopped
from tfdml.files.checked import open_locked
from tfdml.run import ensembles
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.directory.run_record import EnsembleDirectory, runs_of
from tfdml.run.ensembles import member_flags, seed_of, train_ensemble, train_member
from tfdml.run.experiment.splits import Splits


def test_seeds_of_members_differ_also_from_those_of_other_ensembles():
    seeds = [seed_of(seed, number) for seed in range(20) for number in range(25)]
    assert len(set(seeds)) == len(seeds) and all(0 <= seed < 2**31 for seed in seeds)
    # They are in the folders of ensembles that have begun.
    assert [seed_of(0, number) for number in (0, 1)] == [1484405855, 1982462498]


def test_a_member_is_an_ordinary_run_with_a_seed_of_its_own():
    settings, serialized = parsed("--members=3", "--seed=7", "--loss=contrastive", "--meta_classes=5")
    own, _ = parsed(*member_flags(settings, serialized, 2).values())
    changed = {name for name, value in own.values().items() if value != settings.values()[name]}
    assert changed == {"members", "seed", "validation_seed"}
    assert (own.run.members, own.run.seed, own.evaluation.validation_seed) == (0, seed_of(7, 2), 7)
    settings, serialized = parsed("--members=3", "--validation_seed=4")
    assert "--validation_seed=4" in member_flags(settings, serialized, 0).values()


def test_members_have_meta_classes_of_their_own_and_the_same_validation_classes(photos):
    about = ["--dataset=folder", f"--data_dir={photos}", "--evaluate_on=validation", "--validation_classes=0.25"]
    found = []
    for seed in range(8):
        settings, serialized = parsed(*about, "--members=4", "--meta_classes=2", f"--seed={seed}")
        each = [parsed(*member_flags(settings, serialized, number).values())[0] for number in range(4)]
        splits = [Splits.of(member.data, member.evaluation, member.run.seed) for member in each]
        found.append([split.train.labels.tolist() for split in splits])
        for split in splits[1:]:
            np.testing.assert_array_equal(split.evaluation.images, splits[0].evaluation.images)
    assert any(labels != of_a_seed[0] for of_a_seed in found for labels in of_a_seed)


@pytest.fixture
def ensemble(tmp_path, monkeypatch):
    """Function that trains an ensemble whose members only write files; gives those that ran, and were joined."""

    def train(*more, fails=(), claims=True):
        ran, joined = [], []
        settings, serialized = parsed("--members=3", "--loss=contrastive", *more)
        run = EnsembleDirectory(tmp_path / "ensemble")

        def run_member(arguments):
            number = next(n for n in range(9) if f"--run_dir={run.member(n).path}" in arguments)
            ran.append(number)
            if claims:
                run.member(number).path.mkdir(parents=True, exist_ok=True)
                lines = [line for line in arguments if not line.startswith("--run_dir=")]
                (run.member(number).path / "flags.txt").write_text("".join(f"{line}\n" for line in lines))
            if number in fails:
                return f"no memory for {number}."
            (run.member(number).path / "result.json").write_text("{}")
            return None

        def join(runs, out, asked, changes):
            assert changes == {"import_modules": settings.run.import_modules}
            joined.extend(each.path.name for each in runs)
            out.write_result({"members": joined, "asked": asked})

        monkeypatch.setattr(ensembles, "run_member", run_member)
        monkeypatch.setattr(ensembles, "join", join)
        monkeypatch.setattr(ensembles, "log_result", lambda run, result: (run.path / "hparams").touch())
        try:
            _, error = train_ensemble(settings, run, serialized)
        except ValueError as caught:
            error = str(caught)
        finally:
            # A process that has ended holds no lock.
            if run._held:
                run._held.close()
        return ran, joined, error

    return train


NAMES = ["member_000", "member_001", "member_002"]


def test_all_members_are_trained_and_joined_once(ensemble, tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="tfdml")
    assert ensemble() == ([0, 1, 2], NAMES, "") and (tmp_path / "ensemble" / "hparams").exists()
    assert "--members=3" in (tmp_path / "ensemble" / "flags.txt").read_text().splitlines()
    assert ensemble() == ([], [], "")
    assert f"The ensemble in {tmp_path}/ensemble is complete" in caplog.text


def test_a_failed_member_is_named_and_the_others_are_joined(ensemble, tmp_path, caplog):
    ran, joined, error = ensemble(fails=[1])
    assert (ran, joined) == ([0, 1, 2], [NAMES[0], NAMES[2]])
    assert error.startswith(f"1 of 3 members failed: {tmp_path}/ensemble/member_001: no memory for 1. ")
    assert "add --member=1 to train only that one" in error
    assert "Member 2 of 3 failed: no memory for 1." in caplog.messages
    # Only it is trained again, and then all are joined.
    assert ensemble() == ([1], NAMES, "")


def test_a_member_that_another_process_trains_is_named(ensemble, tmp_path, monkeypatch):
    monkeypatch.setattr(ensembles, "ENDING", 0.0)
    taken = tmp_path / "ensemble" / "member_001"
    taken.mkdir(parents=True)
    with open_locked(taken / ".lock"):
        ran, joined, error = ensemble()
    assert (ran, joined) == ([0, 2], [NAMES[0], NAMES[2]])
    assert error.startswith(f"1 of 3 members failed: {taken}: Another process is training in --run_dir={taken}")


def test_where_all_fail_nothing_is_joined(ensemble, tmp_path):
    ran, joined, error = ensemble(fails=[0, 1, 2])
    assert (ran, joined) == ([0, 1, 2], []) and error.startswith("3 of 3 members failed: ")
    assert not (tmp_path / "ensemble" / "flags.txt").exists()


def test_flags_that_do_not_work_together_end_with_the_first_member(ensemble, tmp_path):
    assert ensemble(fails=[0, 1, 2], claims=False) == ([0], [], "no memory for 0.")
    assert not (tmp_path / "ensemble").exists()


def test_an_ensemble_can_grow(ensemble):
    ensemble()
    assert ensemble("--members=4") == ([3], [*NAMES, "member_003"], "")


def test_other_flags_are_refused_before_anything_is_trained(ensemble, tmp_path):
    ensemble(fails=[2])
    ran, joined, error = ensemble("--loss=triplet")
    assert (ran, joined) == ([], [])
    assert f"{tmp_path}/ensemble/member_000 contains a run with other flags (--loss=contrastive before" in error


def test_the_folder_of_an_ordinary_run_is_refused(ensemble, tmp_path):
    (tmp_path / "ensemble").mkdir()
    RunDirectory(tmp_path / "ensemble").claim(parsed("--loss=contrastive")[1])
    (tmp_path / "ensemble" / "final.keras").touch()
    assert ensemble()[2].startswith(
        f"--run_dir={tmp_path}/ensemble contains a run that is not an ensemble. Use another"
    )


def test_an_ordinary_run_that_took_no_step_makes_room(ensemble, tmp_path):
    (tmp_path / "ensemble").mkdir()
    RunDirectory(tmp_path / "ensemble").claim(parsed("--loss=contrastive")[1])
    assert ensemble() == ([0, 1, 2], NAMES, "")


def test_the_folder_of_something_else_is_refused(ensemble, tmp_path):
    (tmp_path / "ensemble").mkdir()
    (tmp_path / "ensemble" / "thesis.tex").write_text("mine")
    assert "exists but is not a tfdml run" in ensemble()[2]


def test_several_workers_train_one_member_at_a_time(ensemble):
    assert "Set --member=0, then --member=1" in ensemble("--devices=workers")[2]


@pytest.mark.parametrize("number", [-1, 3])
def test_the_number_of_a_member_is_checked(tmp_path, number):
    settings, serialized = parsed("--members=3")
    with pytest.raises(ValueError, match=f"--member must be from 0 to 2 with --members=3. Received: --member={number}"):
        train_member(settings, EnsembleDirectory(tmp_path / "run"), serialized, number)


@pytest.mark.parametrize(
    "program, reason",
    [
        ("import sys; print('Warning', file=sys.stderr); sys.exit('Error: no room.')", "no room."),
        ("raise RuntimeError('no plan')", "RuntimeError: no plan"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "It ended by signal 9."),
        ("", None),
    ],
)
def test_why_a_process_failed(monkeypatch, capsys, tmp_path, program, reason):
    (tmp_path / "python").write_text(f'#!/bin/sh\nexec python3 -c "{program}"\n')
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(ensembles.sys, "executable", str(tmp_path / "python"))
    assert ensembles.run_member(["--epochs=3"]) == reason
    # An error is told later, with the name of the member.
    assert "Error: no room" not in capsys.readouterr().err


def test_a_member_that_was_stopped_stops_the_ensemble(monkeypatch, tmp_path):
    (tmp_path / "python").write_text("#!/bin/sh\nkill -TERM $PPID\nexec sleep 60\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(ensembles.sys, "executable", str(tmp_path / "python"))
    with pytest.raises(TrainingStopped, match="The ensemble stopped with this member"):
        ensembles.run_member([])


def test_members_that_are_there_are_found_by_number(tmp_path):
    for name in ("member_010", "member_002", "member_x", "others"):
        (tmp_path / name).mkdir()
    folder = EnsembleDirectory(tmp_path)
    assert {number: run.path.name for number, run in folder.members().items()} == {2: "member_002", 10: "member_010"}
    (tmp_path / "result.json").write_text(json.dumps({"members": [1, 2]}))
    assert folder.joined(3) is None and folder.joined(2) == {"members": [1, 2]}


@pytest.fixture
def three(tmp_path):
    """The folder of an ensemble of three, of which one is complete and one has begun."""
    folder = tmp_path / "ensemble"
    shutil.copytree(straight_run(), folder / "member_001")
    (folder / "member_002").mkdir()
    flags = (straight_run() / "flags.txt").read_text()
    (folder / "flags.txt").write_text(flags.replace("--members=0", "--members=3"))
    return folder


def test_which_runs_are_joined(three, tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="tfdml")
    complete = [three / "member_001"]
    for pattern, asked in ((three, 3), (three / "member_001", 1), (three / "*1", 1), (tmp_path / "ens*", 3)):
        runs, found = runs_of([str(pattern)])
        assert ([each.path for each in runs], found) == (complete, asked)
    assert f"Skipped {three}/member_002, because it is not complete" in caplog.text
    assert [each.path for each in runs_of([str(three), str(straight_run())])[0]] == [*complete, straight_run()]
    assert runs_of([str(three), str(straight_run())])[1] == 4


@pytest.mark.parametrize(
    "names, words",
    [
        ([], "must name complete runs, each of them once. Received: none"),
        (["member_001", "."], "each of them once. Received: .*/member_001"),
        (["member_009"], "member_009 is not a tfdml run directory, because it has no flags.txt"),
        (["member_002"], "member_002 is not a tfdml run directory"),
        (["copy"], "The run in .*/copy is not complete. To resume it, repeat its command"),
    ],
)
def test_what_cannot_be_joined(three, names, words):
    shutil.copytree(straight_run(), three / "copy")
    (three / "copy" / "result.json").unlink()
    with pytest.raises((ValueError, FileNotFoundError), match=words):
        runs_of([str(three / name) for name in names])


def test_an_ensemble_of_other_folders_is_not_trained_again(three):
    shutil.rmtree(three / "member_001")
    shutil.rmtree(three / "member_002")
    with pytest.raises(ValueError, match="an ensemble with members in other folders"):
        EnsembleDirectory(three).check_members({}, None)


def test_members_have_no_ordinary_run_beside_them(three):
    (three / "flags.txt").unlink()
    EnsembleDirectory(three).check_claim({})
    with pytest.raises(ValueError, match="exists but is not a tfdml run"):
        RunDirectory(three).check_claim({})

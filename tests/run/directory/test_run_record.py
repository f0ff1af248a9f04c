"""A run directory tells of its run, complete or still going on."""

import fcntl
import json
import subprocess

import pytest

from tfdml.console import flags
from tfdml.reporting.run_page import state
from tfdml.run.directory.run_record import Record

EVENTS = [
    {"event": "evaluation", "step": 0, "recall_at_1": 0.1},
    {"event": "train", "step": 10, "epoch": 1, "loss": 1.0},
    {"event": "evaluation", "step": 10, "recall_at_1": 0.5},
    {"event": "train", "step": 20, "epoch": 2, "loss": 0.5},
    {"event": "evaluation", "step": 20, "recall_at_1": 0.5},
]


@pytest.fixture
def make_record(tmp_path):
    """Function that makes the `Record` of a run with these flags and this log."""

    def make(*given, log="", result=None):
        (tmp_path / "flags.txt").write_text("".join(f"{line}\n" for line in flags.resolve(given).values()))
        (tmp_path / "metrics.jsonl").write_text(log)
        if result:
            (tmp_path / "result.json").write_text(json.dumps(result))
        return Record.of(tmp_path)

    return make


def test_flags_that_are_not_at_their_default(make_record):
    record = make_record(
        "--epochs=3", "--noprojector", "--jit_compile", "--loss=triplet(margin=0.5)", "--dataset=toycars"
    )
    assert record.changed() == {
        "epochs": ("3", "0"),
        "jit_compile": ("on", "off"),
        "loss": ("triplet(margin=0.5)", "triplet"),
        "projector": ("off", "on"),
    }
    assert record.flags()["deterministic"] == "on" and record.main()["loss"] == "triplet(margin=0.5)"


@pytest.mark.parametrize(
    "method, size", [("features", "size of the backbone's features"), ("single", 16), ("of_a_users_own(width=2)", 16)]
)
def test_dimensions_are_those_of_the_method(make_record, method, size):
    record = make_record(f"--method={method}", "--embedding_size=16", "--initial_model=/a/model.keras")
    assert record.main()["embedding_size"] == size and record.main()["backbone"] == "that of /a/model.keras"


def test_the_command_gives_the_same_flags_to_a_shell(make_record):
    given = [
        "--epochs=3",
        "--noprojector",
        "--data_dir=/a b/$HOME",
        "--loss=triplet(mining='hard')",
        "--backbone=`\\\"'",
    ]
    command = make_record(*given).command()
    assert command.startswith("python -m tfdml.train \\\n  ") and command.endswith("\n  --run_dir=runs/again")
    assert "--loss=\"triplet(mining='hard')\"" in command
    done = subprocess.run(["sh", "-c", command.replace("python -m tfdml.train", "printf '%s\\n'")], capture_output=True)
    assert sorted(done.stdout.decode().splitlines()) == sorted([*given, "--run_dir=runs/again"])


def test_a_run_that_goes_on(make_record):
    log = "".join(f"{json.dumps(event)}\n" for event in EVENTS)
    record = make_record("--epochs=5", log=log + '{"event": "tr')
    assert record.events == EVENTS and (record.step, record.steps()) == (20, 50)
    assert record.best_step("recall_at_1") == 10
    told = state(record)
    assert told.startswith("The run is not complete, and no process trains it: step 20 of 50 at 2")
    assert told.endswith("There is no model yet.") and not record.saved_by()
    with open(record.run.path / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert record.is_training() and state(record).startswith("Training is in progress: step 20 of 50")


def test_a_run_before_its_first_step(make_record):
    record = make_record()
    assert (record.step, record.steps(), record.best_step("map")) == (0, 2000, 0)
    assert ": step 0 of 2,000 at 2" in state(record)
    assert make_record("--steps=70").steps() == 70


def test_a_complete_run(make_record):
    best = {"step": 10, "selected_on": "test", "selected_by": "recall_at_1"}
    record = make_record(result={"step": 1200, "seconds": 4000.0, "best": best})
    assert (record.step, record.best_step("map")) == (1200, 10)
    told = "Training is complete: 1,200 steps in 1 h 7 min. This page shows the best model, from step 10."
    assert state(record) == f"{told} It was selected by Recall@1 on the test split."
    blended = make_record(result={"step": 10, "best": {**best, "blend": 0.5}})
    assert "from step 10, blended with the initial weights (50% trained weights). It was" in state(blended)


def test_members_that_are_not_joined_are_reported_one_by_one(tmp_path):
    (tmp_path / "member_000").mkdir()
    with pytest.raises(ValueError, match="is not joined yet. Use one of its members instead, such as .*member_000"):
        Record.of(tmp_path)
    with pytest.raises(FileNotFoundError, match="no flags.txt"):
        Record.of(tmp_path / "member_000")

"""Trials of a search: their flags, their processes, what they take, and how the search tells how far it is."""

import logging
import os
import signal
from types import SimpleNamespace

import pytest

from pipelines.labels import training_classes
from tfdml import registry
from tfdml.console import flags
from tfdml.console.settings import LengthSettings
from tfdml.console.startup import TrainingStopped
from tfdml.run.directory.checkpoints import CheckpointError
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.experiment.splits import Splits
from tfdml.run.tuning import trials
from tfdml.run.tuning.search import SearchProgress, lengths_of
from tfdml.run.tuning.state import Cost, Plan, RungScore, SearchDirectory, SearchState
from tfdml.run.tuning.trials import TrialFailed, Trials, train_in_process, trial_flags

CHANGED = {"dataset", "evaluate_on", "steps_per_epoch", "eval_every", "eval_unit", "patience", "members", "projector"}
CHANGED |= {"keep_checkpoints", "ignore_images"}


def flags_of(*arguments):
    settings, serialized = flags.parse("\n".join(arguments))
    return settings, flags.parse("\n".join(trial_flags(settings, serialized, 50).values()))[0]


def test_a_trial_is_a_run_on_the_training_classes():
    about = ["--dataset=csv(path='it\\'s.csv')", "--members=5", "--ignore_images=/bad.jsonl", "--loss=circle"]
    settings, own = flags_of(*about, "--evaluate_on=validation", "--validation_classes=0.3", "--seed=7")
    changed = {name for name, value in own.values().items() if value != settings.values()[name]}
    assert changed == CHANGED
    ((name, arguments),) = registry.parse(own.data.dataset)
    assert name == "training_classes" and arguments == {
        "dataset": "csv(path='it\\'s.csv')",
        "held_out": 0.3,
        "seed": 7,
        "ignore_images": "/bad.jsonl",
    }
    assert (own.run.members, own.length.patience, own.evaluation.evaluate_on) == (0, 0, "test")


def test_a_trial_may_have_another_dataset():
    settings, serialized = flags.parse("--dataset=embeddings(path='a', test_classes=0.3)")
    changes = {"dataset": "--dataset=embeddings(path='b', test_classes=0.3)", "loss": "--loss=circle"}
    for given, path in (({}, "a"), (changes, "b")):
        own = flags.parse("\n".join(trial_flags(settings, serialized, 50, given).values()))[0]
        ((_, arguments),) = registry.parse(own.data.dataset)
        assert arguments["dataset"] == f"embeddings(path='{path}', test_classes=0.3)"
        assert own.batches.loss == ("circle" if given else "triplet")


@pytest.mark.parametrize("seeds", [["--seed=3"], ["--validation_seed=5"]])
def test_it_is_measured_on_the_classes_that_validation_holds_out(photos, seeds):
    about = ["--dataset=folder", f"--data_dir={photos}", "--evaluate_on=validation", "--validation_classes=0.5"]
    settings, own = flags_of(*about, *seeds)
    real, of_trial = (Splits.of(each.data, each.evaluation, each.run.seed) for each in (settings, own))
    assert of_trial.test.images.tolist() == real.evaluation.images.tolist()
    assert of_trial.train.images.tolist() == real.train.images.tolist()
    assert of_trial.evaluation is of_trial.test and not set(real.test.images) & set(of_trial.test.images)
    assert len(of_trial.test) == len(training_classes("folder", 0.5, data_dir=str(photos)).test)


def test_lengths_of_a_search():
    assert lengths_of(LengthSettings()) == (50, 2000)
    assert lengths_of(LengthSettings(steps=400)) == (50, 400)
    assert lengths_of(LengthSettings(steps=60)) == (10, 60)
    assert lengths_of(LengthSettings(steps=12, steps_per_epoch=2)) == (2, 12)
    with pytest.raises(ValueError, match="must be at least 60 with --steps_per_epoch=10. Received: --steps=59."):
        lengths_of(LengthSettings(steps=59, steps_per_epoch=10))
    with pytest.raises(ValueError, match="must be at least 6 with --steps_per_epoch=1"):
        lengths_of(LengthSettings(steps=5))
    with pytest.raises(ValueError, match="--steps=2000 must be a multiple of --steps_per_epoch=300. Change --steps"):
        lengths_of(LengthSettings(steps=2000, steps_per_epoch=300))


def test_a_process_that_fails_says_why(tmp_path):
    log, ticks = tmp_path / "000.log", []
    log.write_text("what it printed before\n")
    reason = train_in_process(["--los=triplet"], log, lambda: ticks.append(1), every=0.01)
    assert "Unknown command line flag 'los'" in reason and not reason.startswith("Error")
    assert log.read_text().startswith("what it printed before\nError: ") and ticks


def test_a_signal_stops_the_process_and_then_the_search(tmp_path):
    """The process dies of it while it imports TensorFlow; one that trains saves its step."""
    with pytest.raises(TrainingStopped, match="The search stopped with this trial."):
        train_in_process([], tmp_path / "000.log", lambda: os.kill(os.getpid(), signal.SIGTERM), every=0.01)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


class FakeProcess:
    """Writes what a run of so many steps leaves, in epochs of 2 steps."""

    def __init__(self, fail=None):
        self.arguments, self.fail = [], fail

    def __call__(self, arguments, log, tick):
        self.arguments.append(arguments)
        if self.fail:
            return self.fail
        given = dict(each.removeprefix("--").split("=", 1) for each in arguments if "=" in each)
        run, steps = RunDirectory(given["run_dir"]), int(given["steps"])
        run.path.mkdir(parents=True, exist_ok=True)
        seconds = {2: 9.0, 4: 1.0, 6: 2.0, 8: 0.5}
        lines = [f'{{"event": "train", "step": {at}, "seconds": {seconds[at]}}}' for at in range(2, steps + 1, 2)]
        run.metrics.write_text("\n".join([*lines, ""]))
        best = {"recall_at_1": 0.5, "selected_by": "recall_at_1", "step": steps}
        run.write_result({"best": best, "step": steps, "intervals": {"recall_at_1": [0.2, 0.7]}})
        return None


@pytest.fixture
def made(tmp_path, monkeypatch):
    def make(**about):
        process = FakeProcess(**about)
        monkeypatch.setattr(trials, "train_in_process", process)
        seconds = iter(range(0, 1000, 20))
        monkeypatch.setattr(trials, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
        state = SearchState({}, changes=[{}, {"loss": "--loss=circle"}])
        own = {"loss": "--loss=triplet", "seed": "--seed=0"}
        return Trials(SearchDirectory(tmp_path), state, lambda changes: {**own, **changes}), process

    return make


def test_what_a_trial_comes_to_and_takes(made, tmp_path):
    of_search, process = made()
    first = of_search(1, 4)
    assert (first.trial, first.steps, first.score, first.interval) == (1, 4, 0.5, [0.2, 0.7])
    # Of 20 seconds 4 steps of half a second; the first epoch makes the graph.
    assert first.cost == Cost(18.0, 0.5)
    assert process.arguments == [["--loss=circle", "--seed=0", "--steps=4", f"--run_dir={tmp_path}/trials/001"]]
    assert of_search(1, 8).cost == Cost(19.0, 0.25)
    # A search that was stopped between the end of a run and its own: nothing is trained.
    assert of_search(1, 8).cost is None and len(process.arguments) == 2
    assert of_search.state.metric == "recall_at_1"


def test_a_trial_that_fails_is_told(made):
    with pytest.raises(TrialFailed, match="^The loss is NaN.$"):
        made(fail="The loss is NaN.")[0](1, 4)


def test_a_process_that_a_killed_search_left_is_told(made, tmp_path, monkeypatch):
    monkeypatch.setattr(trials, "ENDING", 0.0)
    of_search, _ = made()
    run = RunDirectory(tmp_path / "trials" / "001")
    run.claim(flags.resolve([]))
    with pytest.raises(ValueError, match="Another process is training in"):
        of_search(1, 4)


def test_a_full_disk_stops_the_search_and_no_trial_is_given_up(made):
    """As the command of a trial tells it, and as a checkpoint does."""
    for told in (
        "Cannot write runs/a: no space is left on the disk. Make room, then repeat the command.",
        str(CheckpointError("Cannot write the checkpoint of step 4: No space left; Make room, then run it again.")),
    ):
        of_search, _ = made(fail=told)
        with pytest.raises(OSError, match="The trial 001 stopped. Cannot write"):
            of_search(1, 4)
        assert of_search.state.failed == {}


def test_a_folder_that_another_process_takes_stops_the_search_and_no_trial_is_given_up(made, tmp_path):
    """As a trial tells it that starts when the folder is free, and comes second."""
    run = RunDirectory(tmp_path / "other")
    run.claim(flags.resolve([]))
    with pytest.raises(ValueError) as told:
        RunDirectory(tmp_path / "other").check_free()
    with pytest.raises(OSError, match="The trial 001 stopped. Another process is training in"):
        made(fail=str(told.value))[0](1, 4)


@pytest.fixture
def state():
    state = SearchState({}, seconds=90.0, metric="recall_at_1", changes=[{}, {"loss": "--loss=circle"}])
    state.plan, state.failed = Plan((100, 300), 1), {1: "The loss is NaN."}
    state.measured = [RungScore(0, 100, 0.5, None, None)]
    return state


def test_lines_of_trials(state, caplog):
    caplog.set_level(logging.INFO, logger="tfdml")
    progress = SearchProgress(600, verbose=2)
    progress.trained(state, 0, 100, 100)
    progress.trained(state, 1, 100, 100)
    progress.end()
    assert caplog.messages == [
        "Trial 0, 100 steps: Recall@1 50.0% (the default settings; 1.5 of 10 minutes)",
        "Trial 1, 100 steps: failed: The loss is NaN (--loss=circle; 1.5 of 10 minutes)",
    ]


def test_a_bar_of_all_steps_in_a_terminal(state, capsys, caplog):
    caplog.set_level(logging.INFO, logger="tfdml")
    progress = SearchProgress(600, verbose=1)
    progress.trained(state, 0, 100, 100)
    state.measured.append(RungScore(0, 300, 0.5, None, None))
    progress.trained(state, 0, 300, 200)
    progress.say("No time is left.")
    printed = capsys.readouterr().out
    assert "300/600" in printed and printed.endswith("\n") and caplog.messages == ["No time is left."]


def test_the_bar_of_a_search_that_goes_on_begins_where_it_was(state, capsys):
    state.measured.append(RungScore(0, 300, 0.5, None, None))
    SearchProgress(600, verbose=1).trained(state, 0, 300, 200)
    assert "100/600" in capsys.readouterr().out

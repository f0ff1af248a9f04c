"""SIGTERM and Ctrl-C: the step is finished, its state is saved, and the exit status says so."""

import os
import re
import shlex
import shutil
import signal
from pathlib import Path

import pytest

from tests.commands import ROOT, Command, Forked, ok, run
from tests.run_helpers import STEPS_PER_EPOCH, assert_same_run, events, steps, straight_flags, straight_run, train_flags
from tfdml.run.training.training_process import StopRequest

STOPPED_STATUS = 75


@pytest.mark.nightly
def test_sigterm_then_ctrl_c_then_to_the_end(tmp_path):
    """Each saves at the end of a step inside an epoch, and the run ends with the bits of one that never stopped."""
    run_dir = tmp_path / "run"
    flags = straight_flags(run_dir, "--checkpoint_every=7")
    for number, epoch, start in ((signal.SIGTERM, 0, Command), (signal.SIGINT, 1, Forked)):
        command = start("tfdml.train", *flags)
        command.until(lambda epoch=epoch: max(steps(run_dir), default=0) > STEPS_PER_EPOCH * epoch)
        done = command.kill(number)
        assert done.returncode == STOPPED_STATUS, done.stderr
        assert len(done.stderr.splitlines()) == 1, done.stderr
        stopped = re.fullmatch(
            rf"Stopped by {number.name} after step (\d+), and saved\. To resume, repeat the same command\.\n",
            done.stderr,
        )
        assert stopped, done.stderr
        step = int(stopped[1])
        assert STEPS_PER_EPOCH * epoch < step < STEPS_PER_EPOCH * (epoch + 1)
        assert steps(run_dir)[-1] == step
        assert not (run_dir / "result.json").exists() and not (run_dir / "final.keras").exists()
    done = ok("tfdml.train", *flags)
    assert f"Resuming {run_dir} after step {step}." in done.stdout
    assert_same_run(run_dir, straight_run())


@pytest.mark.slow
def test_sigterm_at_the_first_evaluation(tmp_path):
    """Asked before the first step: that step is taken and saved."""
    run_dir = tmp_path / "run"
    done = Forked("tfdml.train", *train_flags(run_dir)).until(lambda: events(run_dir)).kill(signal.SIGTERM)
    assert done.returncode == STOPPED_STATUS, done.stderr
    assert f"after step {steps(run_dir)[-1]}, and saved" in done.stderr
    assert 1 <= steps(run_dir)[-1] < STEPS_PER_EPOCH


@pytest.fixture
def unnamed():
    """A run in a folder of its own choice that was stopped in its first epoch, and the folder."""
    flags = [flag for flag in train_flags("unused") if not flag.startswith("--run_dir")]
    command = Forked("tfdml.train", *flags)
    command.until(lambda: re.search(r"Training in (.*):", command.printed()))
    folder = Path(re.search(r"Training in (.*):", command.printed())[1])
    yield command.until(lambda: events(ROOT / folder)).kill(signal.SIGINT), folder
    shutil.rmtree(ROOT / folder)


@pytest.mark.nightly
def test_a_run_without_a_folder_names_its_own_and_the_command_that_resumes(unnamed):
    done, folder = unnamed
    how = f"To resume this run later, repeat the command with --run_dir={folder}."
    assert f"Run directory: {folder}. {how}" in done.stdout
    assert done.returncode == STOPPED_STATUS and "same command" not in done.stderr, done.stderr
    python, module, name, *flags = shlex.split(done.stderr.partition(" To resume, run ")[2])
    assert (python, module, flags[-1]) == ("python", "-m", f"--run_dir={folder}")
    again = run(name, *flags)
    assert f"Resuming {folder} after step {steps(ROOT / folder)[0]}." in again.stdout


TERM, INT = signal.SIGTERM, signal.SIGINT


@pytest.mark.parametrize(
    "numbers, requested",
    # Of Ctrl-C and the SIGTERM that an ensemble sends its member then, the first counts.
    [([TERM], "SIGTERM"), ([INT], "SIGINT"), ([TERM, TERM, INT], "SIGTERM"), ([INT, TERM], "SIGINT")],
)
def test_a_request_is_noted_and_the_handlers_come_back(numbers, requested):
    before = [signal.getsignal(known) for known in (TERM, INT)]
    with StopRequest() as stop:
        assert stop.requested is None
        for number in numbers:
            os.kill(os.getpid(), number)
        assert stop.requested == requested
    assert [signal.getsignal(known) for known in (TERM, INT)] == before


@pytest.mark.parametrize("between", [[], [TERM]])
def test_a_second_ctrl_c_interrupts_at_once(between):
    with pytest.raises(KeyboardInterrupt), StopRequest():
        for number in (INT, *between, INT):
            os.kill(os.getpid(), number)
        pytest.fail("went on")

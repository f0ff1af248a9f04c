"""With which settings and flags a run goes on in its folder, and whether it gets longer."""

import json

import pytest

from tests.run_helpers import parsed
from tfdml.run.training.run_training import going_on


def complete(run, *flags, step, of_epoch=25):
    """Makes a run of flags complete after a step, as far as files say."""
    run.claim(parsed(*flags)[1])
    events = [{"event": "evaluation", "step": 0}, {"event": "train", "step": of_epoch, "epoch": 1}]
    run.metrics.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    (run.checkpoints / f"step-{step:08d}").mkdir(parents=True)
    run.write_result({"step": step, "best": {"step": step}})


def going(run, *flags):
    """Epochs, steps and steps of an epoch with which flags go on, and whether the run gets longer."""
    settings, serialized, longer = going_on(run, *parsed(*flags))
    length = settings.length
    assert serialized["steps_per_epoch"] == f"--steps_per_epoch={length.steps_per_epoch}"
    return length.epochs, length.steps, length.steps_per_epoch, longer


def test_a_new_folder_and_the_same_flags_are_as_given(run):
    assert going(run, "--steps=50") == (0, 50, 0, False)
    complete(run, "--steps=50", step=50)
    assert going(run, "--steps=50") == (0, 50, 0, False)


@pytest.mark.parametrize(
    "flags, expected",
    [
        (["--steps=100"], (0, 100, 25, True)),
        (["--steps=100", "--steps_per_epoch=25"], (0, 100, 25, True)),
        (["--epochs=3"], (3, 0, 25, True)),
        # 2,000 steps, the default.
        ([], (0, 0, 25, True)),
        # Refused as other flags.
        (["--steps=25"], (0, 25, 0, False)),
        (["--epochs=2"], (2, 0, 0, False)),
        (["--steps=100", "--steps_per_epoch=20"], (0, 100, 20, False)),
    ],
)
def test_a_complete_run_gets_longer_by_its_own_epochs(run, flags, expected):
    complete(run, "--steps=50", step=50)
    assert going(run, *flags) == expected


def test_epochs_that_were_kept_are_kept_again(run):
    """The command of a run that was made longer is the same as before, though `flags.txt` says more."""
    complete(run, "--steps=100", "--steps_per_epoch=25", step=100)
    assert going(run, "--steps=100") == (0, 100, 25, False)


def test_a_run_that_is_not_complete_or_has_no_epoch_is_as_given(run):
    complete(run, "--steps=50", step=50)
    run.metrics.write_text('{"event": "evaluation", "step": 0}\n')
    assert going(run, "--steps=100") == (0, 100, 0, False)
    (run.path / "result.json").unlink()
    (run.path / "checksums.json").unlink()
    run.metrics.write_text('{"event": "train", "step": 25, "epoch": 1}\n')
    assert going(run, "--steps=100") == (0, 100, 0, False)


@pytest.mark.parametrize(
    "flags, step, told",
    [
        (["--steps=110"], 50, "--steps=110 must be a multiple of 25, .* has epochs of 25 steps. Set --steps=125"),
        (["--steps=100"], 30, "--patience stopped it after step 30 of 50"),
        (["--steps=110", "--seed=3"], 30, "other flags .*--seed=0 before, --seed=3 now"),
    ],
)
def test_a_run_that_cannot_get_longer_is_told(run, flags, step, told):
    complete(run, "--steps=50", step=step)
    with pytest.raises(ValueError, match=told):
        going(run, *flags)


def test_a_claim_removes_the_result_of_the_shorter_run(run):
    complete(run, "--steps=50", step=50)
    run.final_model.write_text("shorter")
    _, serialized, longer = going_on(run, *parsed("--steps=100"))
    run.claim(serialized)
    assert longer and run.result() is None and not run.final_model.exists()
    assert run.settings().length.steps_per_epoch == 25 and run.has_checkpoint

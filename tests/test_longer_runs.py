"""A complete run that is made longer ends with the bits of one that was as long from its start."""

import shutil

import pytest

from tests.commands import Forked, assert_one_error, ok, run
from tests.run_helpers import (
    EPOCHS,
    STEPS_PER_EPOCH,
    assert_same_run,
    assert_went_on,
    result,
    steps,
    straight_flags,
    straight_run,
    train,
    train_flags,
    trained,
)

# Much that a step can have, and nothing that depends on the length of the run.
MUCH = [
    "--loss=triplet(mining='semi_hard')",
    "--memory=xbm(size=80, start=3)",
    "--optimizer=adamw(learning_rate=0.01, weight_decay=0.01)",
    "--schedule=step(at=(0.5, 1.3), factor=0.5)",
    "--warmup_epochs=0.4",
    "--ema=0.9",
]


def flags_of(run_dir):
    return (run_dir / "flags.txt").read_text()


@pytest.mark.nightly
def test_more_epochs_end_with_the_same_bits(tmp_path):
    straight, longer = tmp_path / "straight", tmp_path / "longer"
    assert train(straight, *MUCH).returncode == 0
    assert train(longer, *MUCH, "--epochs=1").returncode == 0
    assert result(longer)["step"] == STEPS_PER_EPOCH
    done = train(longer, *MUCH)
    assert done.returncode == 0 and "depends on the length" not in done.stdout, done.stderr
    assert_went_on(longer, done)
    assert_same_run(longer, straight)
    assert flags_of(longer) == flags_of(straight)
    assert "is already complete. To train it longer, set --steps" in train(longer, *MUCH).stdout


@pytest.mark.nightly
@pytest.mark.parametrize("killed", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_more_steps_keep_the_epochs_and_a_kill_changes_nothing(killed, tmp_path):
    """Of 10 steps epochs have 5, the divisor next to the 4 batches in the images; of 20 steps they would have 4."""
    more = ["--epochs=0", "--steps_per_epoch=0", "--eval_unit=steps", "--eval_every=5", "--checkpoint_every=1"]
    straight, longer = tmp_path / "straight", tmp_path / "longer"
    assert train(straight, *more, "--steps=20", "--steps_per_epoch=5").returncode == 0
    assert train(longer, *more, "--steps=10").returncode == 0
    if killed:
        stopped = Forked("tfdml.train", *train_flags(longer, *more, "--steps=20"))
        assert stopped.until(lambda: steps(longer)[-1] > 11).kill().returncode == -9
        assert 10 < steps(longer)[-1] < 20 and not (longer / "result.json").exists()
        assert not (longer / "final.keras").exists()
        # The shorter one is no longer there.
        assert_one_error(train(longer, *more, "--steps=10"), "--steps=20 before, --steps=10 now")
    done = trained(longer, *more, "--steps=20")
    assert "20 steps (4 epochs of 5 steps), evaluated on the test set every 5 steps." in done.stdout
    assert_same_run(longer, straight)
    assert flags_of(longer) == flags_of(straight)


@pytest.mark.nightly
def test_schedules_that_depend_on_the_length_are_told(tmp_path):
    """A cosine to a tenth of 0.01 and back, and a temperature from 20 to 0 and back."""
    run_dir = tmp_path / "run"
    shutil.copytree(straight_run(), run_dir)
    done = ok("tfdml.train", *straight_flags(run_dir, f"--epochs={EPOCHS + 1}"))
    told = [line for line in done.stdout.splitlines() if "depends on the length" in line]
    assert len(told) == 2
    assert told[0].startswith(
        "--schedule=cosine(warmup_epochs=0.5, floor=0.1) depends on the length of the run: the learning rate"
    )
    assert "was 0.001 at the end of the run and resumes at 0.0041" in told[0]
    assert told[1].endswith("it was 0 at the end of the run and resumes at 6.66667.")
    assert result(run_dir)["step"] == (EPOCHS + 1) * STEPS_PER_EPOCH


@pytest.mark.nightly
def test_what_cannot_go_on_is_refused(tmp_path):
    run_dir = tmp_path / "run"
    shutil.copytree(straight_run(), run_dir)
    before = {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}
    done = run("tfdml.train", *straight_flags(run_dir, "--steps=50"))
    assert_one_error(done, f"has epochs of {STEPS_PER_EPOCH} steps. Set --steps=60")
    assert before == {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}
    shutil.rmtree(run_dir / "checkpoints")
    done = run("tfdml.train", *straight_flags(run_dir, "--epochs=3"))
    assert_one_error(done, "cannot be made longer because its checkpoints are gone")
    (run_dir / "result.json").unlink()
    (run_dir / "checksums.json").unlink()
    # As it was before: what is not complete has its own flags.
    done = run("tfdml.train", *straight_flags(run_dir, "--epochs=3"))
    assert_one_error(done, "--epochs=2 before, --epochs=3 now")

"""A run that starts from the model of another run goes on exactly, and from that model alone."""

import json
import shutil
import zipfile

import pytest

from tests.commands import Forked, assert_one_error, run
from tests.run_helpers import (
    STEPS_PER_EPOCH,
    assert_same_run,
    assert_went_on,
    result,
    steps,
    straight_run,
    train,
    train_flags,
)
from tfdml.run.directory.run_record import Record


def flags_from(model, run_dir, *more):
    return train_flags(run_dir, "--backbone=small", f"--initial_model={model}", *more)


@pytest.mark.slow
def test_it_begins_where_the_other_ended_and_a_kill_changes_nothing(tmp_path):
    """Measured on validation classes, so that the untrained model is made once more at the end."""
    more = ["--evaluate_on=validation", "--validation_classes=0.5", "--patience=0"]
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    done = run("tfdml.train", *flags_from(straight_run(), straight, *more))
    assert done.returncode == 0, done.stderr
    told = f"--initial_model={straight_run()}: all weights of a Single with the backbone small."
    assert done.stdout.count(told) == 1 and "--optimizer=adam" not in done.stderr
    best = result(straight_run())["best"]
    for name in ("recall_at_1", "map_at_r", "nmi"):
        assert result(straight)["untrained"][name] == pytest.approx(best[name], abs=1e-6)
    started = Forked("tfdml.train", *flags_from(straight_run(), killed, *more))
    started.until(lambda: steps(killed)).kill()
    assert steps(killed) == [STEPS_PER_EPOCH]
    done = run("tfdml.train", *flags_from(straight_run(), killed, *more))
    assert done.returncode == 0, done.stderr
    assert_went_on(killed, done)
    assert_same_run(killed, straight)
    assert Record.of(straight).main()["backbone"] == f"that of {straight_run()}"


@pytest.mark.slow
def test_a_model_that_was_exchanged_is_refused(tmp_path):
    model, run_dir = tmp_path / "model.keras", tmp_path / "run"
    shutil.copy(straight_run() / "model.keras", model)
    done = run("tfdml.train", *flags_from(model, run_dir, "--epochs=1", "--embedding_size=8"))
    assert done.returncode == 0, done.stderr
    assert f"--initial_model={model}: the weights of the backbone, not the others, of a Single" in done.stdout
    assert set(json.loads((run_dir / "dataset.json").read_text())["initial_model"]) == {"bytes", "sha256"}
    with zipfile.ZipFile(model, "a") as archive:  # final.keras may be the same file: the last step can be the best.
        archive.comment = b"another"
    done = run("tfdml.train", *flags_from(model, run_dir, "--epochs=2", "--embedding_size=8"))
    assert_one_error(done, f"--initial_model={model} is another model than when the run began")
    done = train(tmp_path / "other", f"--initial_model={model}")
    assert_one_error(done, "leave out --backbone=small(width=8, stages=2)")

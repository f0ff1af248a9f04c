"""A run that starts from the model of another run goes on exactly, and from that model alone."""

import json
import shutil
import zipfile

import pytest

from tests.commands import assert_one_error, ok, run
from tests.run_helpers import STEPS_PER_EPOCH, assert_goes_on, result, straight_run, train, train_flags
from tfdml.run.directory.run_record import Record


def flags_from(model, run_dir, *more):
    return train_flags(run_dir, "--backbone=small", f"--initial_model={model}", *more)


# The untrained model is then made once more at the end.
ON_VALIDATION = ["--evaluate_on=validation", "--validation_classes=0.5", "--patience=0"]
SHORT = ["--epochs=1", "--steps_per_epoch=2"]


@pytest.mark.slow
def test_it_begins_where_the_other_ended(tmp_path):
    done = ok("tfdml.train", *flags_from(straight_run(), tmp_path / "run", *ON_VALIDATION, *SHORT))
    told = f"--initial_model={straight_run()}: all weights of a Single with the backbone small."
    assert done.stdout.count(told) == 1 and "--optimizer=adam" not in done.stderr
    best = result(straight_run())["best"]
    for name in ("recall_at_1", "map_at_r", "nmi"):
        assert result(tmp_path / "run")["untrained"][name] == pytest.approx(best[name], abs=1e-6)
    assert Record.of(tmp_path / "run").main()["backbone"] == f"that of {straight_run()}"


@pytest.mark.nightly
@pytest.mark.slow
def test_a_kill_changes_nothing(tmp_path):
    straight, killed = (flags_from(straight_run(), tmp_path / name, *ON_VALIDATION) for name in ("straight", "killed"))
    ok("tfdml.train", *straight)
    assert_goes_on(tmp_path / "killed", killed, tmp_path / "straight", step=STEPS_PER_EPOCH)


@pytest.mark.slow
def test_a_model_that_was_exchanged_is_refused(tmp_path):
    model, run_dir = tmp_path / "model.keras", tmp_path / "run"
    shutil.copy(straight_run() / "model.keras", model)
    done = ok("tfdml.train", *flags_from(model, run_dir, "--epochs=1", "--embedding_size=8", "--steps_per_epoch=2"))
    assert f"--initial_model={model}: the weights of the backbone, not the others, of a Single" in done.stdout
    assert set(json.loads((run_dir / "dataset.json").read_text())["initial_model"]) == {"bytes", "sha256"}
    with zipfile.ZipFile(model, "a") as archive:  # final.keras may be the same file: the last step can be the best.
        archive.comment = b"another"
    done = run("tfdml.train", *flags_from(model, run_dir, "--epochs=2", "--embedding_size=8", "--steps_per_epoch=2"))
    assert_one_error(done, f"--initial_model={model} is another model than when the run began")
    done = train(tmp_path / "other", f"--initial_model={model}")
    assert_one_error(done, "leave out --backbone=small(width=8, stages=2)")

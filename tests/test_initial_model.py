"""Runs from trained weights: of another run's model, and with a best model between the first and the final weights."""

import keras
import numpy as np
import pytest

import tfdml
from tests.commands import ok
from tests.run_helpers import (
    STEPS_PER_EPOCH,
    assert_goes_on,
    assert_same_run,
    assert_went_on,
    result,
    saved_model,
    straight_run,
    train,
    train_flags,
    trained,
)
from tfdml.run.directory.run_record import Record

FLAGS = [
    "--backbone=small(width=16)",
    "--initial_weights=toycars",
    "--blend",
    "--evaluate_on=validation",
    "--validation_classes=0.5",
    "--steps_per_epoch=8",
    "--optimizer=adam(learning_rate=0.001)",
    "--seed=1",
]


@pytest.mark.nightly
def test_the_best_model_is_between_the_pretrained_and_the_final_one(tmp_path):
    run_dir = tmp_path / "run"
    done = train(run_dir, *FLAGS, "--epochs=1")
    found = result(run_dir)
    share = found["best"]["blend"]
    assert found["best"]["step"] == found["step"] == 8
    assert f"best on validation (step 8, blend: {share:.0%} trained)" in done.stdout
    watched = found["validation"]
    others = [event["metrics"]["recall_at_1"] for event in (watched, {"metrics": watched["untrained"]})]
    assert watched["best"]["recall_at_1"] > max(others)
    best, final = (tfdml.load(run_dir / f"{name}.keras").model for name in ("model", "final"))
    pretrained = tfdml.backbones.Small(width=16)
    pretrained(keras.KerasTensor((None, 24, 24, 3)))
    pretrained.load_weights(pretrained.shipped_weights["toycars"])
    sides = (each.get_weights() for each in (best.backbone, final.backbone, pretrained))
    for blended, last, first in zip(*sides, strict=True):
        np.testing.assert_allclose(blended, share * last + (1 - share) * first, atol=1e-6)


@pytest.mark.nightly
def test_the_result_is_made_anew_and_a_longer_run_has_the_same_bits(tmp_path):
    straight, longer = tmp_path / "straight", tmp_path / "longer"
    assert train(straight, *FLAGS, "--epochs=2").returncode == 0
    assert train(longer, *FLAGS, "--epochs=1").returncode == 0
    before, models = result(longer), saved_model(longer / "model.keras")
    assert "blend" in before["best"]
    (longer / "result.json").unlink()
    assert_went_on(longer, train(longer, *FLAGS, "--epochs=1"))
    assert result(longer) == before and saved_model(longer / "model.keras") == models
    assert_went_on(longer, train(longer, *FLAGS, "--epochs=2"))
    assert_same_run(longer, straight)


@pytest.mark.nightly
def test_no_effect_without_pretrained_weights(tmp_path):
    done = trained(tmp_path / "run", *FLAGS, "--epochs=1", "--initial_weights=")
    assert "--blend has no effect" in done.stdout and "blend" not in result(tmp_path / "run")["best"]


def flags_from(model, run_dir, *more):
    return train_flags(run_dir, "--backbone=small", f"--initial_model={model}", *more)


# The untrained model is then made once more at the end.
ON_VALIDATION = ["--evaluate_on=validation", "--validation_classes=0.5", "--patience=0"]
SHORT = ["--epochs=1", "--steps_per_epoch=2"]


@pytest.mark.nightly
def test_it_begins_where_the_other_ended(tmp_path):
    done = ok("tfdml.train", *flags_from(straight_run(), tmp_path / "run", *ON_VALIDATION, *SHORT))
    told = f"--initial_model={straight_run()}: loaded all weights of a Single with the backbone small."
    assert done.stdout.count(told) == 1 and "--optimizer=adam" not in done.stderr
    best = result(straight_run())["best"]
    for name in ("recall_at_1", "map_at_r", "nmi"):
        assert result(tmp_path / "run")["untrained"][name] == pytest.approx(best[name], abs=1e-6)
    assert Record.of(tmp_path / "run").main()["backbone"] == f"that of {straight_run()}"


@pytest.mark.nightly
def test_a_kill_changes_nothing(tmp_path):
    straight, killed = (flags_from(straight_run(), tmp_path / name, *ON_VALIDATION) for name in ("straight", "killed"))
    ok("tfdml.train", *straight)
    assert_goes_on(tmp_path / "killed", killed, tmp_path / "straight", step=STEPS_PER_EPOCH)

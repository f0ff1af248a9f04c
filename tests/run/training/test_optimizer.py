"""Flags of optimisation: what they make, and what is refused; tests/test_resume.py has a run with all of them."""

import re
import zipfile

import keras
import numpy as np
import pytest

from tests.commands import assert_one_error
from tests.run_helpers import EVERYTHING, load_newest, saved_model, straight_run, train, trained, variable_names
from tfdml import optimizers, registry
from tfdml.callbacks import WeightAverage
from tfdml.console.settings import EvaluationSettings, LengthSettings, OptimizationSettings
from tfdml.run.experiment.length import Length
from tfdml.run.training.optimizer import check_loss, make_average, make_optimizer, parse_multipliers

LENGTH = Length.of(LengthSettings(epochs=4), EvaluationSettings(), 10)


def made_of(*, scale_loss=False, **settings):
    """The optimizer of settings, in a run of four epochs of ten steps."""
    settings = OptimizationSettings(**{"optimizer": "adam(learning_rate=0.001)", **settings})
    return make_optimizer(settings, LENGTH, scale_loss=scale_loss)


def test_saved_models_are_the_averaged_ones():
    with load_newest(straight_run()) as stored:
        names = [str(name).partition("|")[2] for name in stored["names"]]
        arrays = dict(zip(names, (stored[f"array{place}"] for place in range(len(names))), strict=True))
    kernel = "stage1_conv1/kernel"
    averaged, trained = arrays["stage1_conv1_kernel_average"], arrays[kernel]
    assert np.abs(averaged - trained).max() > 1e-5
    model = keras.models.load_model(straight_run() / "final.keras", compile=False)
    (found,) = [variable.numpy() for variable in model.variables if variable.path == kernel]
    np.testing.assert_array_equal(found, averaged)


@pytest.mark.nightly
def test_saved_models_have_no_state_of_the_optimizer():
    """Checkpoints have it. That of Adam is twice as large as the weights."""
    for name in ("model.keras", "final.keras"):
        found = saved_model(straight_run() / name)
        assert not [part for part in found if part.startswith("optimizer")] and not found["config"].get(
            "compile_config"
        )
    assert [name for name in variable_names(straight_run()) if "optimizer" in name or "momentum" in name]


@pytest.mark.nightly
def test_the_backbone_waits_and_its_statistics_stay(tmp_path):
    """After one of 1.2 epochs of warm-up the backbone is as it was made."""
    more = [*EVERYTHING, "--freeze_batch_norm=statistics", "--epochs=1", "--ema=0"]
    trained(tmp_path / "one", *more)
    trained(tmp_path / "frozen", *more, "--lr_multipliers=*=0")
    one, frozen = (saved_model(tmp_path / name / "final.keras") for name in ("one", "frozen"))
    weights = [name for name in one if name != "config"]
    different = {name for name in weights if one[name] != frozen[name]}
    assert different and all("head" in name for name in different), different
    with zipfile.ZipFile(tmp_path / "one" / "model.keras") as archive:
        assert b'"freeze_batch_norm": "statistics"' in archive.read("config.json")


def test_without_flags_the_optimizer_is_that_of_the_spec():
    made = made_of(optimizer="sgd(learning_rate=0.5, momentum=0.9)")
    assert type(made) is optimizers.SGD
    plain = optimizers.SGD(0.5, momentum=0.9)
    assert {**made.get_config(), "name": ""} == {**plain.get_config(), "name": ""}


def test_every_flag_reaches_the_optimizer():
    made = made_of(
        lr_multipliers=("embedding=10", "loss = 1e2"),
        warmup_epochs=1.5,
        decay_biases_and_norms=False,
        clip_norm=1.0,
        schedule="step(at=(1,), factor=0.5)",
        scale_loss=True,
    )
    assert isinstance(made, keras.optimizers.LossScaleOptimizer)
    config = made.inner_optimizer.get_config()
    assert config["lr_multipliers"] == {"embedding": 10.0, "loss": 100.0}
    assert config["frozen_steps"] == {"backbone": 15}
    assert config["decay_biases_and_norms"] is False and config["global_clipnorm"] == 1.0
    schedule = made.inner_optimizer._learning_rate
    assert [float(schedule(step)) for step in (9, 10)] == pytest.approx([0.001, 0.0005])


def test_warmup_is_as_long_where_gradients_are_accumulated():
    """The optimizer counts its updates then, one for several batches."""
    made = made_of(optimizer="sgd(gradient_accumulation_steps=4)", warmup_epochs=2.0)
    weight = keras.Variable(np.ones(1))
    made.name_groups(lambda: {"backbone": [weight]})
    values = []
    for _ in range(24):
        made.apply([np.ones(1)], [weight])
        values.append(float(weight[0]))
    assert values[:23] == [1.0] * 23 and values[23] < 1.0


def test_a_warmup_that_does_not_end_is_told(caplog):
    made_of(warmup_epochs=float(LENGTH.epochs))
    assert "so it never trains" in caplog.text


@pytest.mark.parametrize("at, told", [("(2, 3.9)", False), ("(2, 4)", True), ("5", True)])
def test_a_change_of_the_rate_after_the_end_is_told(caplog, at, told):
    made_of(schedule=f"step(at={at})")
    assert ("changes the learning rate after" in caplog.text) == told
    assert not told or re.search(r"after (4|5) epochs, but the run only has 4", caplog.text)


def test_a_short_warmup_is_one_step_at_least():
    assert made_of(warmup_epochs=0.01).get_config()["frozen_steps"] == {"backbone": 1}


def test_ema_off_and_on():
    model = keras.Sequential([keras.layers.Dense(2)])
    model.build((None, 3))
    assert make_average(0.0, model) is None
    average = make_average(0.99, model)
    assert isinstance(average, WeightAverage) and average.decay == 0.99 and len(average.variables) == 2


@pytest.mark.parametrize("items", [["embedding"], ["embedding="], ["=3"], ["embedding=ten"], ["a=1", "a=2"]])
def test_multipliers_that_cannot_be_read(items):
    with pytest.raises(ValueError, match="Expected --lr_multipliers=group=factor.*Received: " + ",".join(items)):
        parse_multipliers(items)


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            {"clip_norm": 1.0, "optimizer": "adam(global_clipnorm=2.0)"},
            "--clip_norm sets global_clipnorm, which .* sets too",
        ),
        (
            {"lr_multipliers": ["a=1"], "optimizer": "adam(lr_multipliers={'a': 1})"},
            "--lr_multipliers sets lr_multipliers, which .* sets too",
        ),
        ({"clip_norm": 1.0, "optimizer": "adam(clipnorm=2.0)"}, "clipnorm"),
        ({"optimizer": "adam(use_ema=True)"}, "Use --ema"),
        ({"schedule": "cosine(warmup_epochs=9)"}, "warmup_epochs < epochs"),
        ({"lr_multipliers": ["a=-1"]}, "lr_multipliers to be .*of 0 or more. Received: lr_multipliers={.a.: -1.0}"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        made_of(**changes)


def test_an_optimizer_without_groups_refuses_their_flags(monkeypatch):
    monkeypatch.setitem(registry.parts._registered["optimizer"], "lion", keras.optimizers.Lion)
    assert isinstance(made_of(optimizer="lion"), keras.optimizers.Lion)
    with pytest.raises(
        ValueError, match="--lr_multipliers needs an optimizer with the argument lr_multipliers, which lion"
    ):
        made_of(optimizer="lion", lr_multipliers=["a=1"])


@pytest.mark.parametrize("loss", ["arc_face(classes=3)", "triplet+0.5*arc_face(classes=3)"])
def test_a_loss_for_fewer_classes_than_are_trained_on(loss):
    made = registry.create("loss", loss, classes=8)
    check_loss(made, 3, loss, "folder")
    with pytest.raises(ValueError, match=r"--loss=.*arc_face\(classes=3\) has classes=3, but .*8 training classes"):
        check_loss(made, 8, loss, "folder")
    check_loss(registry.create("loss", "triplet"), 8, "triplet", "folder")
    check_loss(keras.losses.MeanSquaredError(), 8, "mean", "folder")


def test_an_unknown_group_is_one_clear_line(tmp_path):
    done = train(tmp_path / "run", "--lr_multipliers=embeding=10")
    assert_one_error(done, "'embeding'", "Did you mean 'embedding'?", "backbone, embedding, loss")
    assert not (tmp_path / "run").exists()

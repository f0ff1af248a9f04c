"""Training in two stages: the same weights as with frozen steps, without the backbone's gradients."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from tests.commands import assert_one_error
from tests.run_helpers import events, saved_model, train
from tfdml.callbacks import WaitingBackbone
from tfdml.optimizers import Adam

TRACED = []


@tf.custom_gradient
def watched(features):
    def gradient(upstream):
        TRACED.append("gradient")
        return upstream

    return tf.identity(features), gradient


class Watched(keras.layers.Layer):
    def call(self, features):
        TRACED.append("features")
        return watched(features)

    def compute_output_shape(self, shape):
        return shape


def model_of(steps):
    keras.utils.set_random_seed(0)
    images = keras.layers.Input((12, 12, 3))
    features = Watched()(keras.layers.Conv2D(8, 3, activation="relu")(images))
    model = tfdml.Single(keras.Model(images, features), embedding_size=8)
    model(np.zeros((1, 12, 12, 3), np.float32))
    model.compile(Adam(0.01, frozen_steps={"backbone": steps}), loss="triplet(margin=1.0, mining='all')")
    return model


@pytest.mark.slow
def test_weights_are_those_of_frozen_steps_and_the_step_is_traced_twice():
    rng = np.random.default_rng(0)
    batches = tf.data.Dataset.from_tensors(
        (rng.normal(size=(16, 12, 12, 3)).astype(np.float32), np.repeat(np.arange(4), 4))
    ).repeat(4)
    plain, waiting = model_of(3), model_of(3)
    plain.fit(batches, epochs=2, shuffle=False, verbose=0)
    start = waiting.backbone.weights[0].numpy()
    TRACED.clear()
    seen = []

    class Watch(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append((list(TRACED), np.array_equal(self.model.backbone.weights[0], start)))

    waiting.fit(batches, epochs=2, shuffle=False, verbose=0, callbacks=[WaitingBackbone(3), Watch()])
    assert [frozen for _, frozen in seen] == [True] * 3 + [False] * 5
    # One trace without the backbone's gradients, and one with them.
    assert "gradient" not in seen[2][0] and seen[3][0].count("gradient") == 1 and seen[3][0] == seen[-1][0]
    for mine, its in zip(waiting.weights, plain.weights, strict=True):
        np.testing.assert_allclose(mine, its, atol=1e-6)
    assert not waiting.backbones_wait


def test_several_steps_at_once_are_refused():
    model = model_of(3)
    model.compile(Adam(frozen_steps={"backbone": 3}), loss="triplet", steps_per_execution=2)
    with pytest.raises(ValueError, match="changes the model between two steps, .*steps_per_execution=2"):
        model.fit(np.zeros((8, 12, 12, 3)), np.repeat([0, 1], 4), callbacks=[WaitingBackbone(3)], verbose=0)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("devices, until", [("auto", 25), ("cpu:2", 15)])
def test_a_run_stopped_in_either_stage_goes_on_exactly(tmp_path, devices, until):
    more = [f"--freeze_until={until}", f"--devices={devices}", "--epochs=0", "--loss=proxy_anchor"]
    for name, lengths in (("whole", [40]), ("stopped", [20, 40])):
        for steps in lengths:
            done = train(tmp_path / name, *more, f"--steps={steps}")
            assert done.returncode == 0, done.stderr
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert saved_model(stopped / "final.keras") == saved_model(whole / "final.keras")
    assert events(stopped)[-1] == events(whole)[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "more, words",
    [
        (["--warmup_epochs=1"], "--freeze_until and --warmup_epochs cannot both be set"),
        (
            ["--optimizer=adam(gradient_accumulation_steps=4)"],
            "--freeze_until=25 must be a multiple of gradient_accumulation_steps=4",
        ),
        (["--optimizer=adam(frozen_steps={'backbone': 25})"], "--freeze_until sets frozen_steps, which --optimizer"),
    ],
)
@pytest.mark.few_by_day(1)
def test_bad_flags_are_one_line(tmp_path, more, words):
    assert_one_error(train(tmp_path / "run", "--freeze_until=25", *more), words)

"""Training on Keras' JAX backend beside that on TensorFlow."""

import os
import re
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from PIL import Image

from benchmarks import runs
from benchmarks.jax_batches import batches_of, crops, windows_of
from benchmarks.jax_train import check, scores_of
from benchmarks.measured import measure, recall
from benchmarks.records import keep, read
from benchmarks.runs import curve
from pipelines.images.cut import Cut
from tests.programs import jax_steps
from tfdml import flags, registry
from tfdml.evaluation import evaluate
from tfdml.optimizers import Adam
from tfdml.run.run_directory import RunDirectory

ROOT = Path(__file__).resolve().parents[1]
# Compiling takes most of the time.
JAX = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
BACKBONE = "keras_applications(name='MobileNetV2', alpha=0.35, output='block_2_add')"
LOSS, RATE, SIZE = "norm_softmax(temperature=0.1)", 0.01, 32


def test_batches_go_through_classes_and_images_in_rounds():
    labels = np.repeat(np.arange(6), [2, 3, 4, 5, 6, 7])
    batches = batches_of(labels, steps=30, seed=3, classes=4, per_class=2)
    assert batches.shape == (30, 8)
    of_classes = labels[batches].reshape(30, 4, 2)
    assert np.all(of_classes[..., 0] == of_classes[..., 1])
    assert np.all(np.diff(np.sort(of_classes[..., 0], axis=1), axis=1) > 0)
    assert np.all(batches.reshape(30, 4, 2)[..., 0] != batches.reshape(30, 4, 2)[..., 1])
    # 120 draws of 6 classes, and of each class' images, as often as they fit.
    assert set(np.bincount(of_classes[..., 0].ravel())) == {20}
    drawn = np.bincount(batches.ravel())
    for label in range(6):
        assert np.ptp(drawn[labels == label]) <= 1
    assert np.any(batches != batches_of(labels, steps=30, seed=4, classes=4, per_class=2))


def test_windows_have_the_areas_and_shapes_that_are_asked_for():
    top, left, height, width = np.moveaxis(windows_of((2000,), 64, seed=0, area=(0.5, 0.8), aspect=(0.5, 2.0)), -1, 0)
    assert np.all((top >= 0) & (left >= 0) & (top + height <= 64) & (left + width <= 64))
    area, aspect = height * width / 64**2, np.log(width / height)
    assert 0.49 < area.min() < 0.51 and 0.78 < area.max() < 0.81 and abs(aspect.mean()) < 0.05 < aspect.std()
    assert np.all(windows_of((3,), 64, 0, area=(1.0, 1.0), aspect=(2.0, 2.0)) == [0, 0, 64, 64])


def test_crops_are_those_of_the_pipeline():
    images = np.random.default_rng(0).integers(0, 256, (5, SIZE, SIZE, 3)).astype(np.uint8)
    windows = windows_of((5,), SIZE, seed=1, area=(0.3, 1.0))
    found = crops(images, windows)
    for image, window, cropped in zip(images, windows, found, strict=True):
        cut = Cut(lambda *_, window=window: tuple(window), target=lambda height, width: (SIZE, SIZE))
        np.testing.assert_allclose(cropped, cut(image, None), atol=1e-2)


def test_scores_are_those_of_evaluation():
    draws = np.random.default_rng(0)
    labels = np.repeat(np.arange(7), [2, 3, 4, 5, 6, 7, 8])
    embeddings = (draws.normal(size=(35, 3)) + labels[:, None] / 3).astype(np.float32)
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    for euclidean, distance in ((False, "cosine"), (True, "euclidean")):
        found = scores_of(embeddings if euclidean else unit, 10 * labels, euclidean=euclidean)
        expected = evaluate(embeddings, labels, metrics=["recall_at_1", "map_at_r"], distance=distance)
        assert 0.1 < expected["recall_at_1"] < 0.9
        for name, values in found.items():
            np.testing.assert_allclose(values.mean(), expected[name], rtol=1e-5)


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--patience=3", "needs --patience=0, received 3"),
        ("--method=multi_head", "needs --method=single"),
        ("--train_transform=random_resized_crop|flip", "needs --train_transform=random_resized_crop, received"),
        ("--optimizer=auto", "needs an --optimizer"),
        ("--steps=0", "needs --steps"),
        ("--loss=contrastive(pairs='given')", "no batches of given pairs"),
    ],
)
def test_what_is_not_implemented_is_refused(flag, message, tmp_path):
    settings, _ = flags.parse("\n".join(flags.resolve([*given(tmp_path), flag]).values()))
    with pytest.raises(ValueError, match=re.escape(message)):
        check(settings)


@pytest.mark.slow
def test_steps_are_those_of_a_model(tmp_path):
    write_images(tmp_path / "images")
    backbone = registry.create("backbone", BACKBONE)
    backbone.save_weights(tmp_path / "first.weights.h5")
    output = tmp_path / "found.npz"
    assert on_jax(jax_steps.__file__, output, *given(tmp_path)).split() == ["jax"]
    with np.load(output) as found:
        compare_with_model(found, backbone)


def compare_with_model(found, backbone):
    """Trains a model on the same batches."""
    model = registry.create("method", "single", backbone=backbone, embedding_size=8, freeze_batch_norm="statistics")
    classes = len(np.unique(found["labels"]))
    model.compile(Adam(RATE, lr_multipliers={"loss": 10}), registry.create("loss", LOSS, classes=classes))
    model(np.zeros((1, SIZE, SIZE, 3), np.float32))
    names = [name for name in found if name.startswith("before")]
    parts = (model.backbone, model.head, model.loss_layers)
    variables = [variable for part in parts for variable in part.trainable_variables]
    for name, variable in zip(names, variables, strict=True):
        variable.assign(found[name])
    for rows, windows, loss in zip(found["rows"], found["windows"], found["losses"], strict=True):
        images = (np.asarray(crops(found["pixels"][rows], windows)) - backbone.mean) / backbone.std
        history = model.fit(images, found["labels"][rows], batch_size=len(images), shuffle=False, verbose=0)
        np.testing.assert_allclose(history.history["loss"][0], loss, rtol=1e-4)
    for name, variable in zip(names, variables, strict=True):
        after = found[name.replace("before", "after")]
        # Adam's first steps are as long as its rate, whatever the gradient: where that is nearly 0, they are not sure.
        assert np.mean(np.abs(after - keras.ops.convert_to_numpy(variable)) > 1e-3) < 0.02, variable.path
    tested = (found["tested"] - np.array(backbone.mean)) / backbone.std
    np.testing.assert_allclose(found["embeddings"], model.predict(tested, verbose=0), atol=2e-2)


@pytest.mark.slow
def test_a_run_has_what_studies_read(tmp_path):
    write_images(tmp_path / "images")
    registry.create("backbone", BACKBONE).save_weights(tmp_path / "first.weights.h5")
    run_dir = tmp_path / "run"
    on_jax("-m", "benchmarks.jax_train", *given(tmp_path), f"--run_dir={run_dir}")
    result = RunDirectory(run_dir).result()
    assert result["best"]["step"] in curve(run_dir) and list(curve(run_dir)) == [0, 1, 2]
    assert result["validation"]["best"]["recall_at_1"] == max(curve(run_dir).values())
    # Of 12 test images.
    assert recall([run_dir]) == pytest.approx(result["best"]["recall_at_1"])
    measure(run_dir, which="best")
    keep(run_dir, tmp_path / "records.jsonl")
    assert list(read(tmp_path / "records.jsonl")) == ["run"]


def test_studies_train_on_the_backend(monkeypatch):
    commands = []
    monkeypatch.setattr(runs.subprocess, "Popen", lambda command, **_: commands.append(command) or Done())
    for backend, module in (("jax", "benchmarks.jax_train"), ("tensorflow", "tfdml.train")):
        monkeypatch.setenv("KERAS_BACKEND", backend)
        runs.train(["--steps=3"])
        assert commands.pop()[1:] == ["-m", module, "--steps=3"]


class Done:
    """A process that has ended well."""

    def wait(self):
        return 0


def given(folder):
    """Flags of a run on the images of a folder."""
    more = [f"--data_dir={folder}/images", "--dataset=folder", f"--backbone={BACKBONE}", f"--loss={LOSS}", "--steps=2"]
    more += [f"--initial_weights={folder}/first.weights.h5", "--sampler=pxk(classes=3, per_class=2)", "--patience=0"]
    more += [f"--optimizer=adam(learning_rate={RATE})", "--lr_multipliers=loss=10", "--evaluate_on=validation"]
    more += ["--embedding_size=8", f"--image_size={SIZE}", "--validation_classes=0.4", "--freeze_batch_norm=statistics"]
    return [*more, "--train_transform=random_resized_crop(area=(0.5, 1.0))", "--test_transform=warp"]


def on_jax(*arguments):
    """Runs Python on the JAX backend, and returns what it prints."""
    environment = {**os.environ, **JAX, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *map(str, arguments)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def write_images(folder):
    draws = np.random.default_rng(0)
    for number in range(10):
        part = folder / ("train" if number < 6 else "test") / f"class{number}"
        part.mkdir(parents=True)
        for place in range(3):
            Image.fromarray(draws.integers(0, 256, (SIZE, SIZE, 3)).astype(np.uint8)).save(part / f"{place}.png")

"""A Python without TensorFlow trains, evaluates, saves, loads and searches, on JAX and on PyTorch, also on Windows."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
# Python imports it at its start.
WITHOUT_TENSORFLOW = "import sys\nsys.modules['tensorflow'] = None\n"
# A Python without the functions of Linux, and with the lock of Windows.
ON_WINDOWS = """
import os, subprocess, sys, types

sys.modules["fcntl"] = None
for name in ("O_NOFOLLOW", "O_NONBLOCK", "pread"):
    delattr(os, name)


def locking(file, mode, length):
    assert mode == 2 and length == 1


sys.modules["msvcrt"] = types.SimpleNamespace(LK_NBLCK=2, locking=locking)
"""


def answer(folder, site, **environment):
    """Runs the program in a Python that imports the text `site` first; returns what it prints."""
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(site)
    paths = os.pathsep.join([str(folder / "site"), str(ROOT)])
    hidden = ("KERAS_BACKEND", "TF_CPP_MIN_LOG_LEVEL", "PYTHONWARNINGS")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "programs" / "any_backend.py", folder],
        env={**kept, "JAX_PLATFORMS": "cpu", "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def check(found, backend):
    assert (found["backend"], found["has_tensorflow"]) == (backend, False)
    assert np.isfinite(found["losses"]).all() and found["losses"][-1] < found["losses"][0]
    # Before training and after each of three epochs, of which Keras logs the last three.
    assert len(found["recall"]) == 3 and found["recall"][-1] > 0.8
    assert found["averaged_steps"] == 12 and found["steps_of_loaded"] > 12
    assert found["same"] < 1e-5 and found["evaluated"] > 0.8 and found["found"] > 0.8
    assert np.isfinite(found["loss_of_loaded"]).all()
    assert sum(found["divided"]) == 6 and min(found["divided"]) > 0


@pytest.mark.parametrize("backend", ["jax", "torch"])
@pytest.mark.nightly
def test_a_python_without_tensorflow(backend, tmp_path):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    check(answer(tmp_path, WITHOUT_TENSORFLOW, KERAS_BACKEND=backend), backend)


@pytest.mark.nightly
def test_a_python_without_the_functions_of_linux(tmp_path):
    check(answer(tmp_path, WITHOUT_TENSORFLOW + ON_WINDOWS, KERAS_BACKEND="jax"), "jax")


def test_a_backend_is_chosen_without_tensorflow():
    code = f"{WITHOUT_TENSORFLOW}import tfdml, keras\nprint(keras.backend.backend())"
    kept = {name: value for name, value in os.environ.items() if name != "KERAS_BACKEND"}
    environment = {**kept, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout == "jax\n", done.stderr


REFUSED = """
import keras, numpy as np, tfdml
from pipelines.preprocessor import Preprocessor

model = tfdml.Single(tfdml.backbones.Small(width=2, stages=2), embedding_size=4)
for refused in (
    lambda: model.compile("sgd", "triplet", pieces=2),
    lambda: tfdml.evaluation.cost(model, (16, 16, 3)),
    lambda: tfdml.serving.export(model, None, "exported"),
    lambda: Preprocessor("layer('RandomHue', factor=0.2)|warp", image_size=8, mean=(0,) * 3, std=(1,) * 3),
):
    try:
        refused()
    except ValueError as error:
        print(error)
"""


@pytest.mark.nightly
def test_features_of_tensorflow_alone_are_told_in_one_sentence():
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", REFUSED], env=environment, capture_output=True, text=True)
    told = done.stdout.splitlines()
    names = ("compile(pieces=2)", "tfdml.evaluation.cost", "tfdml.serving.export", "The transform layer('RandomHue')")
    assert len(told) == len(names), done.stderr
    for line, name in zip(told, names, strict=True):
        assert line.startswith(f"{name} works only on TensorFlow. Received: the Keras backend JAX. ")


def test_commands_need_tensorflow(tmp_path):
    environment = {**os.environ, "KERAS_BACKEND": "jax"}
    command = [sys.executable, "-m", "tfdml.train", "--dataset=toycars", f"--run_dir={tmp_path / 'run'}"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: tfdml's commands work only on TensorFlow. Received: KERAS_BACKEND=jax. ")


DATASETS_OF_TENSORFLOW = """
import keras
import numpy as np
import tensorflow as tf

import tfdml

images = np.random.default_rng(0).uniform(0, 255, (8, 16, 16, 3)).astype("float32")
labels = np.array([0, 0, 1, 1, 2, 2, 3, 3])
dataset = tf.data.Dataset.from_tensor_slices((images, labels))
model = tfdml.Single(tfdml.backbones.Small(width=2, stages=2), embedding_size=4)
model.preprocessing = tfdml.Preprocessing.of(model, 16)
model.compile("sgd", "triplet(mining='all')")
of = {"backbone": model, "image_size": 16}
losses = model.fit(dataset.batch(8), shuffle=False, verbose=0).history["loss"]
losses += model.fit(tfdml.data.pxk(dataset, classes=2, per_class=2, **of), shuffle=False, verbose=0).history["loss"]
embedded = tfdml.ImageEmbedder(model).embed(dataset.batch(3))
assert np.isfinite(losses).all() and embedded.shape == (8, 4)
np.testing.assert_allclose(embedded, tfdml.ImageEmbedder(model).embed(images), atol=1e-5)
print(keras.backend.backend())
"""


@pytest.mark.nightly
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_datasets_of_tensorflow_feed_every_backend(backend):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    environment = {**os.environ, "KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", DATASETS_OF_TENSORFLOW], env=environment, capture_output=True, text=True
    )
    assert done.stdout.split() == [backend], done.stderr

"""What `import tfdml` does to the process, and that losses run on another Keras backend."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tfdml

ROOT = Path(__file__).resolve().parents[1]
HEAVY = {"faiss", "matplotlib", "tensorboard", "tensorflow_datasets", "sklearn", "scipy", "PIL", "pandas", "jax"}

ADDED_MODULES = """
import json, sys
import keras, tensorflow
keras.ops.zeros(())
before = set(sys.modules)
import tfdml
print(json.dumps(sorted({name.split(".")[0] for name in set(sys.modules) - before})))
"""

WITHOUT_LOCKS = """
import tfdml
print(tfdml.losses.Triplet(margin=0.2).margin)
"""

LOSSES_ON_JAX = """
import json, sys
import keras
before = set(sys.modules)
import tfdml.losses
from tfdml import registry
for name in registry.names("loss"):
    registry.create("loss", "nested(loss='triplet', dims=(2, 4))" if name == "nested" else name)
print(json.dumps({"backend": keras.backend.backend(), "added": sorted(set(sys.modules) - before)}))
"""


def python(code, **environment):
    hidden = ("TF_CPP_MIN_LOG_LEVEL", "KERAS_BACKEND", "PYTHONWARNINGS")
    environment = {**{key: value for key, value in os.environ.items() if key not in hidden}, **environment}
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)


def test_names_that_an_editor_completes_are_those_that_the_docs_name():
    assert dir(tfdml) == sorted(tfdml.__all__) and not {"importlib", "sys", "startup", "keras"} & set(dir(tfdml))
    assert all(hasattr(tfdml, name) for name in dir(tfdml))
    text = "".join(page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
    named = set(re.findall(r"\btfdml\.([A-Za-z]\w*)", text))
    # Commands, and modules that are imported by their names; those of studies are in `tfdml.run.study.study`.
    named -= {path.stem for path in (ROOT / "tfdml").glob("*.py")} - {"data"} | {"run"}
    assert len(named) > 15 and named <= set(dir(tfdml))


@pytest.mark.nightly
def test_import_prints_nothing():
    done = python("import tfdml; import tfdml.losses; tfdml.EmbeddingModel")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
def test_import_adds_no_heavy_module():
    done = python(ADDED_MODULES)
    assert done.returncode == 0, done.stderr
    added = set(json.loads(done.stdout))
    assert "tfdml" in added
    assert not added & HEAVY


@pytest.mark.nightly
@pytest.mark.parametrize(
    "module",
    [
        "tfdml.registry",
        *(pytest.param(f"pipelines.{each}", marks=pytest.mark.nightly) for each in ("datasets", "preprocessing")),
    ],
)
def test_a_part_may_be_imported_first(module):
    done = python(f"import {module}")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
def without_fcntl(tmp_path):
    """Environment of a Python that has no fcntl, as on Windows."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['fcntl'] = None\n")
    return {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}


@pytest.mark.nightly
def test_import_needs_no_locks(without_fcntl):
    done = python(WITHOUT_LOCKS, **without_fcntl)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["0.2"]


def test_commands_say_at_once_that_they_need_locks(without_fcntl):
    environment = os.environ | without_fcntl
    command = [sys.executable, "-m", "tfdml.train", "--data_dir=photos"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    told = (
        f"Error: tfdml's commands lock folders with fcntl, which Python on {sys.platform} lacks. Use Linux, macOS, or"
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"{told} WSL on Windows.\n")


@pytest.mark.slow
def test_losses_import_no_tensorflow_on_jax():
    done = python(LOSSES_ON_JAX, KERAS_BACKEND="jax")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["backend"] == "jax"
    added = {name.split(".")[0] for name in answer["added"]}
    assert "tfdml" in added and "tensorflow" not in added


@pytest.mark.slow
def test_embeddings_of_files_are_evaluated_without_tensorflow(tmp_path):
    labels = np.repeat(np.arange(12), 4)
    np.save(tmp_path / "embeddings.npy", np.random.default_rng(0).normal(size=(48, 8)).astype(np.float32))
    np.save(tmp_path / "labels.npy", labels)
    files = [f"--{name}={tmp_path}/{name}.npy" for name in ("embeddings", "labels")]
    metrics = "--metrics=recall_at_1,map,nmi,effective_rank"
    command = [sys.executable, "-X", "importtime", "-m", "tfdml.evaluate", *files, metrics]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and set(metrics[10:].split(",")) <= set(json.loads(done.stdout.splitlines()[-1]))
    imported = {line.split("|")[-1].strip().split(".")[0] for line in done.stderr.splitlines()}
    assert "faiss" in imported and not imported & {"tensorflow", "keras", "sklearn"}

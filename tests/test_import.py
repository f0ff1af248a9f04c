"""What `import tfdml` does to the process, and that losses run on another Keras backend."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tfdml import registry

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

LOSSES_ON_JAX = """
import json, sys
import keras
before = set(sys.modules)
import tfdml.losses
added = sorted({name.split(".")[0] for name in set(sys.modules) - before})
import jax
from tfdml import registry
given = json.load(sys.stdin)
labels, embeddings = keras.ops.array(given["labels"]), keras.ops.array(given["embeddings"], "float32")
results = {}
for spec in given["specs"]:
    loss = registry.create("loss", spec)
    values = loss.call(labels, embeddings)
    gradient = jax.grad(lambda x: loss(labels, x))(embeddings)
    results[spec] = {"values": values.tolist(), "gradient": gradient.tolist()}
added_later = "tensorflow" in sys.modules and "tensorflow" not in before
print(json.dumps({"backend": keras.backend.backend(), "added": added, "results": results, "late": added_later}))
"""


def python(code, given="", **environment):
    hidden = ("TF_CPP_MIN_LOG_LEVEL", "KERAS_BACKEND", "PYTHONWARNINGS")
    environment = {**{key: value for key, value in os.environ.items() if key not in hidden}, **environment}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, input=given, capture_output=True, text=True
    )


def test_import_prints_nothing():
    done = python("import tfdml; import tfdml.losses; tfdml.EmbeddingModel")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_import_adds_no_heavy_module():
    done = python(ADDED_MODULES)
    assert done.returncode == 0, done.stderr
    added = set(json.loads(done.stdout))
    assert "tfdml" in added
    assert not added & HEAVY


@pytest.fixture(scope="module")
def on_jax():
    random = np.random.default_rng(0)
    labels, embeddings = random.integers(0, 3, 10), random.normal(size=(10, 4)).astype("float32")
    embeddings[3] = embeddings[7]
    names = registry.names("loss")
    specs = [*names, *(f"triplet(mining={mining!r})" for mining in ("all", "hard", "batch_hard"))]
    given = {"labels": labels.tolist(), "embeddings": embeddings.tolist(), "specs": specs}
    done = python(LOSSES_ON_JAX, given=json.dumps(given), KERAS_BACKEND="jax")
    assert done.returncode == 0, done.stderr
    return given, json.loads(done.stdout)


def test_losses_import_no_tensorflow_on_jax(on_jax):
    _, answer = on_jax
    assert answer["backend"] == "jax"
    assert "tfdml" in answer["added"] and "tensorflow" not in answer["added"] and not answer["late"]


def test_losses_give_the_same_values_and_gradients_on_jax(on_jax):
    given, answer = on_jax
    assert set(registry.names("loss")) <= set(answer["results"])
    for spec, result in answer["results"].items():
        loss, embeddings = registry.create("loss", spec), tf.constant(given["embeddings"])
        values = loss.call(tf.constant(given["labels"]), embeddings)
        with tf.GradientTape() as tape:
            tape.watch(embeddings)
            mean = loss(tf.constant(given["labels"]), embeddings)
        np.testing.assert_allclose(result["values"], values, rtol=1e-5, atol=1e-5, err_msg=spec)
        np.testing.assert_allclose(
            result["gradient"], tape.gradient(mean, embeddings), rtol=1e-5, atol=1e-5, err_msg=spec
        )
        assert np.abs(result["gradient"]).max() > 1e-3

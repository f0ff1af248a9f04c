"""Losses on Keras' JAX backend: as on TensorFlow, and as the goldens."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.goldens.comparisons import AGREE, batches_of, read, stored, terms_of, weights_of
from tests.loss_specs import LOSS_SPECS, SUM_SPECS
from tfdml import registry

pytestmark = [pytest.mark.slow, pytest.mark.nightly]

ROOT = Path(__file__).resolve().parents[2]
TOLERANCE = 1e-5
# Compiling takes most of the time.
JAX = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
# Of different sizes of classes, some of one row.
BATCH = "uneven"

SPECS = [*(spec for name in registry.names("loss") for spec in LOSS_SPECS.get(name, [name])), *SUM_SPECS]
SPECS += ["n_pair(negatives='first_pair_per_class', normalize=True)"]
COMPARED = [name for name in AGREE if BATCH in batches_of(name)[1]]


def case(spec, prepare=lambda embeddings: embeddings, gradients=False):
    """A case of the program, on a batch of the goldens."""
    batch = read("inputs")[BATCH]
    layer = registry.create("loss", spec).make_layer()
    weights = []
    if layer is not None:
        layer.build((None, len(batch["embeddings"][0])))
        weights = [stored_or_drawn(weight.shape, batch) for weight in layer.weights]
    embeddings = np.asarray(prepare(np.array(batch["embeddings"], np.float32)))
    return {
        "spec": spec,
        "labels": batch["labels"],
        "embeddings": embeddings.tolist(),
        "weights": [weight.tolist() for weight in weights],
        "gradients": gradients,
    }


def stored_or_drawn(shape, batch):
    known = shape in [(7,), np.shape(batch["proxies"]), (14, len(batch["proxies"][0]))]
    return stored(shape, batch) if known else np.random.default_rng(0).uniform(0.9, 1.4, shape)


@pytest.fixture(scope="module")
def on_jax():
    """The program's answer, with results by `("spec", spec)` and `("golden", name)`."""
    cases = {("spec", spec): [case(spec, gradients=True)] for spec in SPECS}
    for name in COMPARED:
        cases["golden", name] = [case(spec, prepare) for spec, prepare, _ in terms_of(AGREE[name])]
    answer = computed("losses_on_jax.py", JAX, [each for several in cases.values() for each in several])
    results = iter(answer["results"])
    return {**answer, "results": {key: [next(results) for _ in several] for key, several in cases.items()}}


def computed(program, environment, cases):
    """The answer of a program that computes losses."""
    hidden = ("TF_CPP_MIN_LOG_LEVEL", "PYTHONWARNINGS")
    kept = {key: value for key, value in os.environ.items() if key not in hidden}
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "programs" / program],
        env={**kept, **environment, "PYTHONPATH": str(ROOT)},
        input=json.dumps(cases),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_tensorflow_is_not_imported(on_jax):
    assert on_jax["backend"] == "jax"
    assert "tfdml.losses" in on_jax["modules"] and "tensorflow" not in on_jax["modules"]


@pytest.mark.parametrize("spec", SPECS)
def test_as_on_tensorflow(on_jax, spec):
    check_as_on_tensorflow(on_jax["results"]["spec", spec][0], spec)


def check_as_on_tensorflow(found, spec):
    """A result of `case(spec, gradients=True)` is that of TensorFlow."""
    given = case(spec)
    loss = registry.create("loss", spec)
    labels, embeddings = tf.constant(given["labels"]), tf.Variable(given["embeddings"])
    layer, weights = loss.make_layer(), []
    if layer is not None:
        layer.build((None, embeddings.shape[1]))
        weights = layer.weights
        for weight, start in zip(weights, given["weights"], strict=True):
            weight.assign(start)
    with tf.GradientTape() as tape:
        taken = layer(embeddings, labels) if layer else embeddings
        values, mean = loss.call(labels, taken), loss(labels, taken)
    gradients = tape.gradient(mean, [embeddings, *(weight.value for weight in weights)])
    largest = max(np.abs(gradient).max() for gradient in gradients)
    assert largest > 1e-4
    # Entries are sums of terms up to the largest gradient, of which little may be left: that of a bias of vicreg is 0,
    # where others are 12,000. Float32 rounds each term in its last places, on both backends.
    rounding = max(TOLERANCE, 4 * np.finfo(np.float32).eps * largest)
    np.testing.assert_allclose(found["values"], values, rtol=TOLERANCE, atol=TOLERANCE)
    said = {name: float(value) for name, value in loss.statistics(labels, taken).items()}
    assert found["statistics"] == pytest.approx(said, rel=TOLERANCE, nan_ok=True)
    assert found["compiled_mean"] == pytest.approx(float(mean), rel=TOLERANCE, abs=TOLERANCE)
    for part, other in zip(found["gradients"], gradients, strict=True):
        np.testing.assert_allclose(part, other, rtol=TOLERANCE, atol=rounding)


@pytest.mark.parametrize("name", COMPARED)
def test_as_the_goldens(on_jax, name):
    batch, value = read("inputs")[BATCH], 0.0
    for (_, _, weigh), result in zip(terms_of(AGREE[name]), on_jax["results"]["golden", name], strict=True):
        value += np.sum(weights_of(weigh, batch, np.array(result["values"])) * result["values"])
    expected = read("pytorch_metric_learning")[name][BATCH]["value"]
    assert value == pytest.approx(expected, rel=TOLERANCE, abs=TOLERANCE)

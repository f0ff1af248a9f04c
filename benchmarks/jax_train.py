"""Trains one embedding on Keras' JAX backend: `KERAS_BACKEND=jax python -m benchmarks.jax_train --run_dir=DIR FLAG...`.

Studies with rows use it in place of `tfdml.train`, whose flags it takes, where the backend is JAX. It writes what they
read of a run's folder: its flags, learning curve and result, and the measures of its best model, but no models. See
`benchmarks.jax_training`.
"""

import json
import sys
import time
from functools import partial
from types import SimpleNamespace

import jax
import keras
import numpy as np
from jax import numpy as jnp

from benchmarks.jax_training import Training, pixels_of
from benchmarks.measured import FILE as MEASURED
from benchmarks.measured import groups_of_test
from pipelines.datasets import load
from tfdml import flags, registry
from tfdml.loss_hooks import hooks_of
from tfdml.run.length import evaluations_of
from tfdml.run.run_directory import RunDirectory

# Flags that may have only this value, or only this part, because nothing else is implemented here.
ONLY_VALUES = {
    "clip_norm": 0.0,
    "ema": 0.0,
    "evaluate_on": "validation",
    "folds": 0,
    "freeze_batch_norm": "statistics",
    "ignore_images": "",
    "members": 0,
    "memory": "",
    "meta_classes": 0,
    "patience": 0,
    "precision": "float32",
    "schedule": "constant",
    "select_by": "",
    "test_transform": "warp",
    "warmup_epochs": 0.0,
}
ONLY_PARTS = {"method": "single", "sampler": "pxk", "train_transform": "random_resized_crop"}


def main(arguments):
    run_dir = next((each.partition("=")[2] for each in arguments if each.startswith("--run_dir=")), None)
    if not run_dir:
        raise ValueError("--run_dir is missing: the folder of the run.")
    resolved = flags.resolve(arguments)
    settings, _ = flags.parse("\n".join(resolved.values()))
    check(settings)
    run = RunDirectory(run_dir)
    run.claim(resolved)
    began = time.perf_counter()
    curve, result, measures = train(settings)
    run.metrics.write_text("".join(json.dumps(event) + "\n" for event in curve))
    (run.path / MEASURED).write_text(json.dumps(measures) + "\n")
    environment = {"Keras": keras.__version__, "JAX": jax.__version__, "device": jax.devices()[0].device_kind}
    run.write_result({**result, "seconds": round(time.perf_counter() - began, 1), "environment": environment})


def check(settings):
    """Raises if flags ask for what is not implemented here."""
    for name, only in {**ONLY_VALUES, **ONLY_PARTS}.items():
        given = getattr(settings, name)
        parts = [part for part, _ in registry.parse(given)] if name in ONLY_PARTS else [given]
        if parts != [only]:
            raise ValueError(f"Training on JAX needs --{name}={only}, received {given!r}. Use TensorFlow for others.")
    if settings.optimizer == "auto":
        raise ValueError("Training on JAX needs an --optimizer, such as adam(learning_rate=0.0001).")
    if not settings.steps:
        raise ValueError("Training on JAX needs --steps, the number of batches.")
    if hooks_of(registry.create("loss", settings.loss, classes=2)).batch_parts > 1:
        raise ValueError(f"Training on JAX has no batches of given pairs or triplets, as --loss={settings.loss} takes.")


def train(settings):
    """Trains, and returns the events, the result and the measures of a run."""
    dataset = load(settings.dataset, data_dir=settings.data_dir)
    seed = settings.seed if settings.validation_seed == -1 else settings.validation_seed
    train_split, validation = dataset.hold_out(settings.validation_classes, seed)
    training = Training(settings, train_split.numbered())
    parts = {"validation": validation, "test": dataset.test}
    pixels = {part: pixels_of(split, settings.image_size) for part, split in parts.items()}

    def measured(state, part):
        embeddings = training.embeddings(state, pixels[part])
        return scores_of(embeddings, parts[part].labels, euclidean=training.euclidean)

    state = training.start()
    rows, windows = training.plan()
    every, _ = evaluations_of(settings, 1)
    states = {0: state}
    history = {0: _summary(measured(state, "validation"))}
    for begin in range(0, settings.steps, every):
        state, losses = training.take_steps(state, rows[begin : begin + every], windows[begin : begin + every])
        step = begin + len(losses)
        if not np.isfinite(losses).all():
            raise ValueError(f"The loss is not finite in steps {begin} to {step}.")
        states[step], history[step] = state, _summary(measured(state, "validation"))
    best = max(history, key=lambda step: history[step]["recall_at_1"])
    tested = {step: measured(states[step], "test") for step in {0, best, step}}
    result = {
        "untrained": _summary(tested[0]),
        "metrics": _summary(tested[step]),
        "best": {**_summary(tested[best]), "step": best, "selected_on": "validation"},
        "validation": {"metrics": history[step], "best": history[best], "untrained": history[0]},
        "step": step,
    }
    curve = [{"event": "evaluation", "step": step, **metrics} for step, metrics in history.items()]
    return curve, result, _measures(SimpleNamespace(train=train_split, test=dataset.test), tested[best]["recall_at_1"])


def scores_of(embeddings, labels, euclidean=False):
    """Recall@1 and MAP@R of each row as a query among all others.

    Args:
        embeddings: `[N, d]`, at unit length unless `euclidean`.
        labels: `[N]` NumPy array.
        euclidean: whether Euclidean distances are compared, not cosines.
    """
    labels, counts = np.unique(labels, return_inverse=True, return_counts=True)[1:]
    found = _scores(embeddings, jnp.asarray(labels), most=int(counts.max()) - 1, euclidean=euclidean)
    return {name: np.asarray(values) for name, values in found.items()}


@partial(jax.jit, static_argnames=("most", "euclidean"))
def _scores(embeddings, labels, most, euclidean):
    similarities = jnp.matmul(embeddings, embeddings.T, precision="highest")
    if euclidean:
        similarities = 2 * similarities - jnp.sum(embeddings**2, axis=1)
    similarities = jnp.where(jnp.eye(len(labels), dtype=bool), -jnp.inf, similarities)
    right = labels[jax.lax.top_k(similarities, most)[1]] == labels[:, None]
    relevant = jnp.sum(labels[:, None] == labels, axis=1) - 1
    ranks = jnp.arange(1, most + 1)
    counted = right & (ranks <= relevant[:, None])
    precisions = jnp.cumsum(right, axis=1) / ranks
    return {"recall_at_1": right[:, 0], "map_at_r": jnp.sum(counted * precisions, axis=1) / relevant}


def _summary(scores):
    return {name: float(values.mean()) for name, values in scores.items()}


def _measures(splits, right):
    """What `benchmarks.measured.measure` keeps of a run."""
    _, classes, queries = np.unique(splits.test.labels, return_inverse=True, return_counts=True)
    found = {"model": "best", "queries": queries.tolist(), "right": np.bincount(classes, right).astype(int).tolist()}
    groups = groups_of_test(splits)
    return {**found, "groups": groups} if groups else found


if __name__ == "__main__":
    main(sys.argv[1:])

"""Exports the model of a run: a SavedModel and its card."""

from pathlib import Path

import keras
import tensorflow as tf
from absl import logging

from pipelines.preprocessor import Preprocessor
from tfdml import registry, serving
from tfdml.console.version import __version__
from tfdml.files.checked_files import cleared, flush, naming
from tfdml.registry.loss_hooks import hooks_of
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.experiment.experiment import trained, trained_model
from tfdml.serving.exported.first_dimensions import Prefix
from tfdml.serving.exported.lite import write_lite
from tfdml.serving.exported.model_card import write_card
from tfdml.serving.exported.onnx_file import write_onnx
from tfdml.serving.exported.projection import Projection
from tfdml.serving.exported.saved_model_files import model_hash

# Of a result, what is no score.
NO_SCORES = ("queries", "step")


def export_run(run_dir, which, out, *, tolerant=False, dims=0, whiten=False, lite=None, onnx=False, changes=()):
    """Writes the SavedModel of a run's `best` or `final` model, and its card, to a folder that must not exist.

    Args:
        run_dir: path of the run.
        which: `best` or `final`.
        out: the folder.
        tolerant: as of `tfdml.serving.export`.
        dims: number of dimensions to keep: the first ones, where these were trained nested, else so many principal
            components of the training embeddings; 0: all.
        whiten: whether to keep components in any case, and give them the same variance.
        lite: precision of a file for LiteRT, see `tfdml.serving.exported.lite`; None: there is none.
        onnx: whether there is a file for ONNX Runtime, too.
        changes: settings to replace, name to value, such as `data_dir`, the folder of the dataset, which components
            need; see `trained`.
    """
    out, model = Path(out), trained_model(run_dir, which, changes)
    projection = _projection(model, run_dir, which, dims, whiten, changes) if dims else None
    # Fails at once and names the path; TensorFlow would fail with a traceback, after much work.
    out.mkdir(parents=True, exist_ok=True)
    with naming(out):
        unfinished = cleared(out.with_name(f".writing-{out.name}"))
        preprocessor = Preprocessor.of(model.preprocessing)
        serving.export(model, preprocessor, unfinished, tolerant=tolerant, projection=projection)
        if lite:
            write_lite(unfinished, lite)
        if onnx:
            write_onnx(unfinished)
        facts = {**_of_model(model, projection), **_of_run(RunDirectory(run_dir), which, model)}
        written = {"sha256": model_hash(unfinished), "tolerant": tolerant, "lite": lite, "onnx": onnx}
        write_card(unfinished, {**written, **facts})
        flush(unfinished)
        unfinished.rename(out)


def _projection(model, run_dir, which, dims, whiten, changes):
    """Returns what keeps some dimensions of the embedding: its first ones, or its principal components."""
    nested = _nested_dims(model, run_dir)
    if dims in nested and not whiten:
        return Prefix(_dimension(model), dims)
    if nested and not whiten:
        known = ", ".join(map(str, nested))
        logging.warning("--dims=%d is none of %s, trained nested: it projects to principal components.", dims, known)
    experiment, model = trained(run_dir, which, changes, test_only=False)
    return Projection.fit(experiment.embed(model, experiment.splits.train), dims, whiten)


def _nested_dims(model, run_dir):
    """Returns the numbers of first dimensions of the embedding that training made embeddings of their own."""
    if model.learner_count > 1:
        # Each learner is nested, and not what stands side by side.
        return ()
    # It is not trained, so that any number of classes will do.
    return hooks_of(registry.create("loss", RunDirectory(run_dir).settings().batches.loss, classes=2)).nested_dims


def _dimension(model):
    """Returns the number of dimensions of the model's embedding."""
    return model(keras.KerasTensor((None, *model.preprocessing.image_shape))).shape[-1]


def _of_model(model, projection):
    """Returns the facts of a card that the model says."""
    dimension = _dimension(model)
    return {
        "embedding": {
            "dimension": projection.dimension if projection else dimension,
            "metric": "cosine" if projection or model.normalize else "euclidean",
            "learners": model.learner_count,
            "learner_dimension": dimension // model.learner_count,
            "projection": projection.description if projection else "",
        },
        "images": model.preprocessing.get_config(),
        "versions": {"tfdml": __version__, "TensorFlow": tf.__version__, "Keras": keras.__version__},
    }


def _of_run(run, which, model):
    """Returns the facts of a card that the run says."""
    settings, result = run.settings(), run.result() or {}
    found = result.get("best" if which == "best" else "metrics", {})
    scores = {name: value for name, value in found.items() if isinstance(value, float) and name not in NO_SCORES}
    source, licence = _weights(settings.network.initial_weights, model)
    members = f"{settings.run.members} members of " if settings.run.members else ""
    return {
        "model": which,
        "method": f"{members}{settings.network.method}",
        "backbone": settings.network.backbone,
        "weights": source,
        "weights_licence": licence,
        "data": {
            "dataset": settings.data.dataset,
            "protocol": settings.evaluation.protocol,
            "queries": found.get("queries"),
            "selected_on": result.get("selected_on") if which == "best" else None,
        },
        "scores": scores,
        "intervals": result.get("intervals", {}) if which == "best" else {},
    }


def _weights(initial, model):
    """Returns where the initial weights of the backbone are from, and their licence, as far as is known."""
    if not initial:
        return "random", "none needed"
    if model.backbone is not None and initial in model.backbone.shipped_weights:
        return f"{initial}, part of tfdml", "Apache-2.0"
    if initial == "imagenet":
        return f"imagenet, downloaded by {model.backbone.name}", "not recorded; ask the publisher of the weights"
    return Path(initial).name, "not recorded; ask the publisher of the weights"

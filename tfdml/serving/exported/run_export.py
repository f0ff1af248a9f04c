"""Exports the model of a run: a SavedModel and its card."""

import logging

from tfdml import registry
from tfdml.registry.loss_hooks import hooks_of
from tfdml.run.directory.model_files import sha256_of
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.experiment.experiment import trained, trained_model
from tfdml.run.experiment.threshold import threshold_of
from tfdml.serving.exported.first_dimensions import Prefix
from tfdml.serving.exported.projection import Projection
from tfdml.serving.exported.written_export import dimension_of, weights_of, write_export

# Of a result, what is no score.
NO_SCORES = ("queries", "step", "blend")


def export_run(run_dir, which, out, *, dims=0, whiten=False, changes=(), **formats):
    """Writes the SavedModel of a run's `best` or `final` model, and its card, to a folder that must not exist.

    Args:
        run_dir: path of the run.
        which: `best` or `final`.
        out: the folder.
        dims: number of dimensions to keep: the first ones, where these were trained nested, else so many principal
            components of the training embeddings; 0: all.
        whiten: whether to keep components in any case, and give them the same variance.
        changes: settings to replace, name to value, such as `data_dir`, the folder of the dataset, which components
            need; see `trained`.
        **formats: `tolerant`, `lite` and `onnx`, as of `write_export`.
    """
    model = trained_model(run_dir, which, changes)
    projection = _projection(model, run_dir, which, dims, whiten, changes) if dims else None
    about = facts_of_run(RunDirectory(run_dir), which, model)
    # A threshold of the run's embeddings means nothing for other dimensions.
    if not dims:
        about["run_sha256"] = sha256_of(RunDirectory(run_dir), which)
        if threshold := threshold_of(run_dir, which):
            about["threshold"] = threshold
    write_export(model, out, about, projection=projection, **formats)


def images_of(run_dir, data_dir=""):
    """Returns the images of a run as `python -m tfdml.index` takes them, `images` and `data_dir`.

    Args:
        run_dir: path of the run.
        data_dir: folder of the dataset, if it has moved; empty: the run's own.
    """
    data = RunDirectory(run_dir).settings().data
    root = data_dir or data.data_dir
    # A folder of photos needs no dataset, and all of it is worth an index.
    if root and data.dataset.startswith(("folder", "photos")):
        return {"images": root, "data_dir": ""}
    return {"images": data.dataset, "data_dir": root}


def _projection(model, run_dir, which, dims, whiten, changes):
    """Returns what keeps some dimensions of the embedding: its first ones, or its principal components."""
    nested = _nested_dims(model, run_dir)
    if dims in nested and not whiten:
        return Prefix(dimension_of(model), dims)
    if nested and not whiten:
        known = ", ".join(map(str, nested))
        logging.getLogger(__name__).warning(
            "--dims=%d is none of %s, trained nested: it projects to principal components.", dims, known
        )
    experiment, model = trained(run_dir, which, changes, test_only=False)
    return Projection.fit(experiment.embed(model, experiment.splits.train), dims, whiten)


def _nested_dims(model, run_dir):
    """Returns the numbers of first dimensions of the embedding that training made embeddings of their own."""
    if model.learner_count > 1:
        # Each learner is nested, and not what stands side by side.
        return ()
    # It is not trained, so that any number of classes will do.
    return hooks_of(registry.create("loss", RunDirectory(run_dir).settings().batches.loss, classes=2)).nested_dims


def facts_of_run(run, which, model):
    """Returns the facts of a card that the run says.

    Args:
        run: `RunDirectory`.
        which: `best` or `final`.
        model: that model.
    """
    settings, result = run.settings(), run.result() or {}
    found = result.get("best" if which == "best" else "metrics", {})
    scores = {name: value for name, value in found.items() if isinstance(value, float) and name not in NO_SCORES}
    source, licence = weights_of(settings.network, model.backbone)
    members = f"{settings.run.members} members of " if settings.run.members else ""
    return {
        "model": which,
        "method": f"{members}{settings.network.method}",
        "backbone": settings.network.backbone_or_origin,
        "head": settings.network.head,
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

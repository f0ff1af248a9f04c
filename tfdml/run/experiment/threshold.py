"""Fits thresholds, and measures decisions about given pairs."""

import logging
from pathlib import Path

import numpy as np

from tfdml import registry
from tfdml.evaluation.metrics import PairMetric, metrics_of
from tfdml.evaluation.ranks.exact_vectors import ExactVectors
from tfdml.evaluation.verification.pair_list import PairList, given_similarities, named_embeddings
from tfdml.evaluation.verification.thresholds import fit_threshold, verified
from tfdml.files.checked import read_record, write_record
from tfdml.run.directory.model_archive import sha256_of
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.experiment.comparison import Source
from tfdml.run.experiment.splits import on_validation

FILE = "threshold.json"


def fit(source, rule, samples, seed):
    """Returns the threshold of a `Source` by `{"far": rate}` or `{"precision": share}`, and what is known of it."""
    pairs = source.protocol.pairs(np.asanyarray(source.embeddings), source.rows)
    fitted = fit_threshold(pairs, **rule, samples=samples, seed=seed)
    classes = len(np.unique(source.rows.labels))
    return {**source.facts, "distance": source.protocol.distance, **rule, "classes": classes, **fitted}


def write_threshold(run_dir, threshold):
    """Writes what `fit` returns into the directory of a run."""
    write_record(Path(run_dir, FILE), threshold, indent=2)


def threshold_of(run_dir, which="best", distance=None):
    """Returns what was fitted for the `best` or `final` model of a run, and for a distance if one is given; or None."""
    file = Path(run_dir, FILE)
    if not file.is_file():
        return None
    entries = {"threshold": float, "distance": str, "model": str, "sha256": str, "run_dir": str}
    found = read_record(file, entries, "Fit the threshold again.")
    # Where the run is matters to nobody who has its export.
    del found["run_dir"]
    if found["model"] != which or distance not in (None, found["distance"]):
        return None
    if found.pop("sha256") != sha256_of(RunDirectory(run_dir), which):
        logging.getLogger(__name__).warning(
            "%s is of another %s model than the run has now, and is not used; fit it again.", file, which
        )
        return None
    return found


def source_of_run(run_dir, which, split, changes):
    """Returns the `Source` of a run's model on its `validation` or `test` classes.

    Args:
        run_dir: folder of the run.
        which: `best` or `final`.
        split: `validation` or `test`.
        changes: settings to use instead of the run's, name to value.
    """
    # Here, because it imports TensorFlow, which embeddings of files do without.
    from tfdml.run.experiment.experiment import trained

    if split == "validation":
        changes = on_validation(changes, run_dir, "--split=test, to fit on the test classes")
    experiment, model = trained(run_dir, which, changes, test_only=split == "test")
    images = experiment.splits.test if split == "test" else experiment.splits.evaluation
    facts = {
        "run_dir": run_dir,
        "model": which,
        "sha256": sha256_of(RunDirectory(run_dir), which),
        "dataset": experiment.settings.data.dataset,
        "split": split,
        "protocol": experiment.protocol_spec,
    }
    return Source(facts, experiment.splits.protocol, experiment.embed(model, images), images)


METRICS = ("roc_auc", "equal_error_rate", "tar_at_far_0.1", "tar_at_far_0.01", "tar_at_far_0.001")


def verified_pairs(file, metrics=(), *, embeddings="", folder="", make_embedder=None, modules=()):
    """Returns what decisions by cosine similarity about the pairs of a file are worth.

    Args:
        file: path of the pairs.
        metrics: specs of metrics of pairs; empty: those of `METRICS` that so many pairs have.
        embeddings: path of embeddings with names; empty: those of images.
        folder: folder of the images; empty: the working directory.
        make_embedder: function without arguments that returns an `ImageEmbedder` or `ExportedModel` for images.
        modules: the user's modules that register parts of its model.
    """
    chosen = metrics_of(tuple(metrics) or METRICS)
    others = [metric.name for metric in chosen if not (isinstance(metric, PairMetric) and metric.of_counts)]
    if others:
        raise ValueError(f"--pairs measures decisions about pairs, such as roc_auc; received {', '.join(others)}.")
    pairs = PairList.read(file)
    if embeddings:
        vectors, known = named_embeddings(embeddings)
        rows = pairs.rows(known, embeddings)
    else:
        there = {name: row for row, name in enumerate(pairs.names) if Path(folder, name).is_file()}
        rows = pairs.rows(there, folder or "the working directory")
        registry.import_modules(modules)
        vectors = _embedded(make_embedder(), [Path(folder, name) for name in pairs.names])
    rows, places = np.unique(rows, return_inverse=True)
    scores = given_similarities(ExactVectors.of(vectors[rows]), *places.reshape(2, -1))
    if not metrics:
        different = int(np.sum(~pairs.same))
        chosen = [metric for metric in chosen if metric.negatives_needed <= different]
    return verified(scores, pairs.same, pairs.folds, chosen)


def _embedded(embedder, paths):
    # Here, because it imports TensorFlow, which embeddings of files do without.
    from pipelines.reading.sources import split_of

    return embedder.embed_split(split_of(paths))
